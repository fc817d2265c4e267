/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * copy_mc_careful_{gpr,sse2,avx2,avx512}: mcspin's own. The promise of copy_mc_fragile (no string
 * instruction, no load that crosses a cache line, poison never touched beyond the first bad line,
 * exact residues) at the speed of a good memory copy.
 *
 * How the promise holds by construction: a head of naturally aligned loads of 1, 2, 4 … bytes
 * aligns the source to the vector's width, so every load is aligned to its own size and none
 * crosses a line. Loads go upwards, and every load of a line that faults is the first of that
 * line. At a bad load the bytes before it in the block are still owed to the destination: the
 * fix-up hands exactly those to copy_mc_fragile. At a bad store everything from the block's start
 * goes through copy_mc_fragile, which stops at the same byte, having read nothing new.
 *
 * rdi destination, rsi source, edx length; returns rax: bytes not copied. Clobbers rcx, rdx, rsi,
 * rdi, r8-r11, vector registers 0-3 (volatile in both calling conventions), flags.
 */
#include "linkage.h"
#include "copy_careful.h"
#include "alt/alternative.h"
#include "trap/extable.h"

/* Owe %eax bytes from the block's start, then stop: residue = length - owed + what those left. */
SYM_FUNC_START(copy_mc_careful_pay)
	pushq	%rbx
	movl	%edx, %ebx
	subl	%eax, %ebx
	movl	%eax, %edx
	call	copy_mc_fragile
	addl	%ebx, %eax
	popq	%rbx
	ret
SYM_FUNC_END(copy_mc_careful_pay)

/* One aligned step of the head or tail: load, store, advance. rsi is aligned to \size. */
.macro STEP name, size, load, store, reg, fix
.L\name\()_l_\fix\size\():
	\load	(%rsi), \reg
.L\name\()_s_\fix\size\():
	\store	\reg, (%rdi)
	addq	$\size, %rsi
	addq	$\size, %rdi
	subl	$\size, %edx
	_ASM_EXTABLE_TYPE .L\name\()_l_\fix\size, .L\name\()_owe_0, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE .L\name\()_s_\fix\size, .L\name\()_e_store
.endm

.macro HEAD_STEP name, size, load, store, reg
	testb	$\size, %sil
	jz	1f
	STEP	\name, \size, \load, \store, \reg, h
1:
.endm

.macro TAIL_STEP name, size, load, store, reg
	testb	$\size, %dl
	jz	1f
	STEP	\name, \size, \load, \store, \reg, t
1:
.endm

/* A block of four vectors: four loads upwards, four stores. */
.macro BLOCK name, width, load, store, r0, r1, r2, r3, kind
.L\name\()_\kind\()l0:	\load	(%rsi), \r0
.L\name\()_\kind\()l1:	\load	\width(%rsi), \r1
.L\name\()_\kind\()l2:	\load	2*\width(%rsi), \r2
.L\name\()_\kind\()l3:	\load	3*\width(%rsi), \r3
.L\name\()_\kind\()s0:	\store	\r0, (%rdi)
.L\name\()_\kind\()s1:	\store	\r1, \width(%rdi)
.L\name\()_\kind\()s2:	\store	\r2, 2*\width(%rdi)
.L\name\()_\kind\()s3:	\store	\r3, 3*\width(%rdi)
	_ASM_EXTABLE_TYPE .L\name\()_\kind\()l0, .L\name\()_owe_0, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE_TYPE .L\name\()_\kind\()l1, .L\name\()_owe_1, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE_TYPE .L\name\()_\kind\()l2, .L\name\()_owe_2, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE_TYPE .L\name\()_\kind\()l3, .L\name\()_owe_3, EX_TYPE_DEFAULT_MCE_SAFE
	_ASM_EXTABLE .L\name\()_\kind\()s0, .L\name\()_e_store
	_ASM_EXTABLE .L\name\()_\kind\()s1, .L\name\()_e_store
	_ASM_EXTABLE .L\name\()_\kind\()s2, .L\name\()_e_store
	_ASM_EXTABLE .L\name\()_\kind\()s3, .L\name\()_e_store
.endm

/* Steps of at most half a vector, growing (head) or shrinking (tail). */
.macro HEADS name, width
	HEAD_STEP \name, 1, movb, movb, %al
	HEAD_STEP \name, 2, movw, movw, %ax
	HEAD_STEP \name, 4, movl, movl, %eax
	.if \width > 8
	HEAD_STEP \name, 8, movq, movq, %rax
	.endif
	.if \width > 16
	HEAD_STEP \name, 16, movdqa, movdqu, %xmm0
	.endif
	.if \width > 32
	HEAD_STEP \name, 32, vmovdqa, vmovdqu, %ymm0
	.endif
.endm

.macro TAILS name, width
	.if \width > 32
	TAIL_STEP \name, 32, vmovdqa, vmovdqu, %ymm0
	.endif
	.if \width > 16
	TAIL_STEP \name, 16, movdqa, movdqu, %xmm0
	.endif
	.if \width > 8
	TAIL_STEP \name, 8, movq, movq, %rax
	.endif
	TAIL_STEP \name, 4, movl, movl, %eax
	TAIL_STEP \name, 2, movw, movw, %ax
	TAIL_STEP \name, 1, movb, movb, %al
.endm

/* No prefetch anywhere: a prefetched poisoned line is logged too; the promise is not to touch it. */

.macro CAREFUL width, least, load, store, stream, r0, r1, r2, r3, leave, shift
	cmpl	$\least, %edx
	jb	.L\width\()_small
	testb	$\width-1, %sil
	jz	.L\width\()_aligned
	HEADS	\width, \width
.L\width\()_aligned:
	cmpl	$4*\width, %edx
	jb	.L\width\()_ones
	.ifnc \shift,
	testb	$\width-1, %dil
	jnz	\shift
	.endif
	.ifnc \stream,
	cmpl	$STREAM_BYTES, %edx
	jae	.L\width\()_stream
	.endif
	.balign 32
.L\width\()_loop:
	BLOCK	\width, \width, \load, \store, \r0, \r1, \r2, \r3, b
	addq	$4*\width, %rsi
	addq	$4*\width, %rdi
	subl	$4*\width, %edx
	cmpl	$4*\width, %edx
	jae	.L\width\()_loop
	testl	%edx, %edx
	jz	.L\width\()_done
SYM_INNER_LABEL(copy_mc_careful_ones_\width)
.L\width\()_ones:
	cmpl	$\width, %edx
	jb	.L\width\()_tail
	STEP	\width, \width, \load, \store, \r0, o
	jmp	.L\width\()_ones
.L\width\()_tail:
	TAILS	\width, \width
.L\width\()_done:
	\leave
	xorl	%eax, %eax
	ret

	/* Short: words are as careful, as fast, and need no vector. */
.L\width\()_small:
	.ifeq \width-8
	jmp	copy_mc_fragile
	.else
	jmp	copy_mc_careful_gpr
	.endif

	.ifnc \stream,
	/* Non-temporal stores need an aligned destination. */
.L\width\()_stream:
	testb	$\width-1, %dil
	jnz	.L\width\()_loop
	.balign 32
1:	BLOCK	\width, \width, \load, \stream, \r0, \r1, \r2, \r3, n
	addq	$4*\width, %rsi
	addq	$4*\width, %rdi
	subl	$4*\width, %edx
	cmpl	$4*\width, %edx
	jae	1b
	sfence
	jmp	.L\width\()_ones
	.endif

.L\width\()_owe_0:
	\leave
	movl	%edx, %eax
	ret
.L\width\()_owe_1:
	movl	$\width, %eax
	jmp	.L\width\()_pay
.L\width\()_owe_2:
	movl	$2*\width, %eax
	jmp	.L\width\()_pay
.L\width\()_owe_3:
	movl	$3*\width, %eax
.L\width\()_pay:
	\leave
	jmp	copy_mc_careful_pay
.L\width\()_e_store:
	\leave
	jmp	copy_mc_fragile
.endm

/* Below this the plain loop of copy_mc_fragile is not beaten. */
#define WORDS_LEAST 64

SYM_FUNC_START(copy_mc_careful_gpr)
	CAREFUL	8, WORDS_LEAST, movq, movq, , %r8, %r9, %r10, %r11
SYM_FUNC_END(copy_mc_careful_gpr)

/* Below VECTOR_LEAST bytes the head and tail of a vector form cost more than its middle saves. */
#define VECTOR_LEAST 256

/* The widest that this machine offers. */
SYM_FUNC_START(copy_mc_careful)
	cmpl	$VECTOR_LEAST, %edx
	jb	copy_mc_careful_gpr
	ALT_SITE SITE_CAREFUL
	ALTERNATIVE_3 "jmp copy_mc_careful_gpr", "jmp copy_mc_careful_sse2", X86_FEATURE_ALWAYS, \
		"jmp copy_mc_careful_avx2", X86_FEATURE_AVX2, \
		"jmp copy_mc_careful_avx512", X86_FEATURE_AVX512F
SYM_FUNC_END(copy_mc_careful)

SYM_FUNC_START(copy_mc_careful_sse2)
	CAREFUL	16, VECTOR_LEAST, movdqa, movdqu, movntdq, %xmm0, %xmm1, %xmm2, %xmm3
SYM_FUNC_END(copy_mc_careful_sse2)

SYM_FUNC_START(copy_mc_careful_avx2)
	CAREFUL	32, VECTOR_LEAST, vmovdqa, vmovdqu, vmovntdq, %ymm0, %ymm1, %ymm2, %ymm3, vzeroupper
SYM_FUNC_END(copy_mc_careful_avx2)

SYM_FUNC_START(copy_mc_careful_avx512)
	CAREFUL	64, VECTOR_LEAST, vmovdqa64, vmovdqu64, vmovntdq, %zmm0, %zmm1, %zmm2, %zmm3, \
		vzeroupper, .Lshift

	/* Every store would cross a line: 64 bytes in two ticks. A byte shuffle makes them whole. */
.Lshift:
	cmpl	$512, %edx
	jb	.L64_loop
	ALT_SITE SITE_CAREFUL_SHIFT
	ALTERNATIVE "jmp .L64_loop", "jmp copy_mc_careful_shift", X86_FEATURE_AVX512_VBMI
SYM_FUNC_END(copy_mc_careful_avx512)
