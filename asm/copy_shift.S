/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of copy_mc_careful_avx512 for a destination that lies differently in its line than the
 * source: aligned loads as promised, and aligned stores too. Each vector is rotated as it is loaded
 * (AVX512_VBMI), and two neighbours are blended: one cycle each, where a store across a line takes two.
 *
 * Entry: rsi aligned to 64, rdi not, edx at least 512 bytes still to copy. Leaves to the vector
 * steps of copy_mc_careful_avx512 with what is less than a vector.
 *
 * Inside: r9 = how far the destination is into its line, which is how many bytes of the vector
 * loaded last (zmm0) are still owed. The copy stands at (rdi, rsi - r9), and edx counts from there;
 * every way out puts r9 back first.
 */
#include "linkage.h"
#include "copy_careful.h"
#include "alt/alternative.h"
#include "trap/extable.h"

	.section .rodata
	.balign 64
.Liota:
	.set	i, 0
	.rept	64
	.byte	i
	.set	i, i + 1
	.endr
	.text

/* Four vectors on, from zmm0 and four loads; the fourth becomes zmm0. */
.macro SHIFT_BLOCK kind, store
.Lshift_\kind\()l0:	vpermb	(%rsi), %zmm17, %zmm1
.Lshift_\kind\()l1:	vpermb	64(%rsi), %zmm17, %zmm2
.Lshift_\kind\()l2:	vpermb	128(%rsi), %zmm17, %zmm3
.Lshift_\kind\()l3:	vpermb	192(%rsi), %zmm17, %zmm16
	vmovdqu8	%zmm1, %zmm0{%k1}
	vmovdqu8	%zmm2, %zmm1{%k1}
	vmovdqu8	%zmm3, %zmm2{%k1}
	vmovdqu8	%zmm16, %zmm3{%k1}
.Lshift_\kind\()s0:	\store	%zmm0, (%rdi)
.Lshift_\kind\()s1:	\store	%zmm1, 64(%rdi)
.Lshift_\kind\()s2:	\store	%zmm2, 128(%rdi)
.Lshift_\kind\()s3:	\store	%zmm3, 192(%rdi)
	vmovdqa64	%zmm16, %zmm0
	_ASM_EXTABLE_TYPE .Lshift_\kind\()l0, .Lshift_owe_0, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE_TYPE .Lshift_\kind\()l1, .Lshift_owe_1, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE_TYPE .Lshift_\kind\()l2, .Lshift_owe_2, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE_TYPE .Lshift_\kind\()l3, .Lshift_owe_3, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE .Lshift_\kind\()s0, .Lshift_e_store
	_ASM_EXTABLE .Lshift_\kind\()s1, .Lshift_e_store
	_ASM_EXTABLE .Lshift_\kind\()s2, .Lshift_e_store
	_ASM_EXTABLE .Lshift_\kind\()s3, .Lshift_e_store
.endm

.macro SHIFT_LOOP kind, store
	.balign 32
1:	SHIFT_BLOCK \kind, \store
	addq	$256, %rsi
	addq	$256, %rdi
	subl	$256, %edx
	cmpl	%r8d, %edx
	jae	1b
.endm

SYM_FUNC_START(copy_mc_careful_shift)
	movl	%edi, %r9d
	andl	$63, %r9d
	movl	$64, %ecx
	subl	%r9d, %ecx
	vpbroadcastb %ecx, %zmm17
	vpaddb	.Liota(%rip), %zmm17, %zmm17 /* vpermb looks at the low six bits: a rotation */
	movq	$-1, %rax
	shlx	%r9, %rax, %r10
	kmovq	%r10, %k1 /* what a vector gives to its own line of the destination */
	knotq	%k1, %k2  /* what it owes to the next */
	/* The first vector fills the destination's line. */
	andq	$-64, %rdi
.Lshift_first_l:
	vpermb	(%rsi), %zmm17, %zmm0
.Lshift_first_s:
	vmovdqu8 %zmm0, (%rdi){%k1}
	addq	$64, %rsi
	addq	$64, %rdi
	subl	%ecx, %edx
	leal	256(%r9), %r8d /* a block needs this much: what is owed and four vectors */
	cmpl	$STREAM_BYTES, %edx
	jae	.Lshift_stream
	SHIFT_LOOP b, vmovdqa64
	jmp	.Lshift_owed
.Lshift_stream:
	SHIFT_LOOP n, vmovntdq
	sfence
.Lshift_owed:
	leal	64(%r9), %r8d
	cmpl	%r8d, %edx
	jb	.Lshift_last
.Lshift_one_l:
	vpermb	(%rsi), %zmm17, %zmm1
	vmovdqu8 %zmm1, %zmm0{%k1}
.Lshift_one_s:
	vmovdqa64 %zmm0, (%rdi)
	vmovdqa64 %zmm1, %zmm0
	addq	$64, %rsi
	addq	$64, %rdi
	subl	$64, %edx
	jmp	.Lshift_owed
.Lshift_last:
.Lshift_last_s:
	vmovdqu8 %zmm0, (%rdi){%k2}
	addq	%r9, %rdi
	subl	%r9d, %edx
	jmp	copy_mc_careful_ones_64

.Lshift_owe_0:
	movl	%r9d, %eax
	jmp	.Lshift_pay
.Lshift_owe_1:
	leal	64(%r9), %eax
	jmp	.Lshift_pay
.Lshift_owe_2:
	leal	128(%r9), %eax
	jmp	.Lshift_pay
.Lshift_owe_3:
	leal	192(%r9), %eax
.Lshift_pay:
	subq	%r9, %rsi
	vzeroupper
	jmp	copy_mc_careful_pay
.Lshift_e_store:
	subq	%r9, %rsi
	vzeroupper
	jmp	copy_mc_fragile
	/* Nothing is copied yet, and the destination stands at its line. */
.Lshift_e_first:
	addq	%r9, %rdi
	vzeroupper
	jmp	copy_mc_fragile
.Lshift_e_load:
	vzeroupper
	movl	%edx, %eax
	ret
SYM_FUNC_END(copy_mc_careful_shift)

	_ASM_EXTABLE_TYPE .Lshift_first_l, .Lshift_e_load, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE .Lshift_first_s, .Lshift_e_first
	_ASM_EXTABLE_TYPE .Lshift_one_l, .Lshift_owe_0, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE .Lshift_one_s, .Lshift_e_store
	_ASM_EXTABLE .Lshift_last_s, .Lshift_e_store
