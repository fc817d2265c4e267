/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine-check-safe copies, as Linux has them (arch/x86/lib/copy_mc_64.S) and, for
 * copy_mc_generic, as it was posted in 2020 and never released.
 *
 * All: rdi destination, rsi source, edx length in bytes. Return rax: bytes not copied.
 * Clobber rcx, rdx, rsi, rdi, r8, flags. DF is clear on entry (ABI) and stays so.
 * Loads are machine-check-safe; a machine check at a store's address is not recoverable.
 */
#include "linkage.h"
#include "alt/alternative.h"
#include "trap/extable.h"

/*
 * copy_mc_fragile: for processors on which a machine check inside REP MOVS is fatal. Bytes until
 * the source is 8-aligned, words, bytes: no load crosses a cache line, no string instruction.
 * A fault in a word load leaves whole words (poison has line granularity); a fault in a word store
 * is finished byte by byte.
 */
SYM_FUNC_START(copy_mc_fragile)
	cmpl	$8, %edx
	jb	.Lfragile_tail
	movl	%esi, %ecx
	andl	$7, %ecx
	jz	.Lfragile_aligned
	subl	$8, %ecx
	negl	%ecx
	subl	%ecx, %edx
SYM_INNER_LABEL(copy_mc_fragile_read_leading)
	movb	(%rsi), %al
.Lfragile_write_leading:
	movb	%al, (%rdi)
	incq	%rsi
	incq	%rdi
	decl	%ecx
	jnz	copy_mc_fragile_read_leading

.Lfragile_aligned:
	movl	%edx, %ecx
	andl	$7, %edx
	shrl	$3, %ecx
	jz	.Lfragile_tail
SYM_INNER_LABEL(copy_mc_fragile_read_words)
	movq	(%rsi), %r8
.Lfragile_write_words:
	movq	%r8, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
	decl	%ecx
	jnz	copy_mc_fragile_read_words

.Lfragile_tail:
	andl	%edx, %edx
	jz	.Lfragile_done
	movl	%edx, %ecx
SYM_INNER_LABEL(copy_mc_fragile_read_trailing)
	movb	(%rsi), %al
.Lfragile_write_trailing:
	movb	%al, (%rdi)
	incq	%rsi
	incq	%rdi
	decl	%ecx
	jnz	copy_mc_fragile_read_trailing

.Lfragile_done:
	xorl	%eax, %eax
	ret

	/* What is left: in the leading bytes ecx of them and everything behind; in the words 8 each
	 * and the tail; in the tail ecx. */
.Lfragile_e_words:
	shll	$3, %ecx
	addl	%edx, %ecx
	jmp	.Lfragile_e_trailing
.Lfragile_e_leading:
#ifdef MUTANT_RESIDUE
	decl	%ecx
#endif
	addl	%edx, %ecx
.Lfragile_e_trailing:
	movl	%ecx, %eax
	ret
.Lfragile_e_write_words:
	shll	$3, %ecx
	addl	%edx, %ecx
	movl	%ecx, %edx
	jmp	copy_mc_fragile_handle_tail
SYM_FUNC_END(copy_mc_fragile)

	_ASM_EXTABLE_TYPE copy_mc_fragile_read_leading, .Lfragile_e_leading, EX_TYPE_DEFAULT_MCE_SAFE
#ifndef MUTANT_EXTABLE
	_ASM_EXTABLE_TYPE copy_mc_fragile_read_words, .Lfragile_e_words, EX_TYPE_DEFAULT_MCE_SAFE
#endif
#ifdef MUTANT_FIXUP
	_ASM_EXTABLE_TYPE copy_mc_fragile_read_trailing, .Lfragile_e_words, EX_TYPE_DEFAULT_MCE_SAFE
#else
	_ASM_EXTABLE_TYPE copy_mc_fragile_read_trailing, .Lfragile_e_trailing, EX_TYPE_DEFAULT_MCE_SAFE
#endif
	_ASM_EXTABLE .Lfragile_write_leading, .Lfragile_e_leading
	_ASM_EXTABLE .Lfragile_write_words, .Lfragile_e_write_words
	_ASM_EXTABLE .Lfragile_write_trailing, .Lfragile_e_trailing

/* copy_mc_enhanced_fast_string: REP MOVSB, whose rcx is exact at a fault on either side. */
SYM_FUNC_START(copy_mc_enhanced_fast_string)
	movq	%rdx, %rcx
SYM_INNER_LABEL(copy_mc_enhanced_fast_string_copy)
	rep movsb
	xorl	%eax, %eax
	ret
.Lfast_e_copy:
	movq	%rcx, %rax
	ret
SYM_FUNC_END(copy_mc_enhanced_fast_string)

	_ASM_EXTABLE_TYPE copy_mc_enhanced_fast_string_copy, .Lfast_e_copy, EX_TYPE_DEFAULT_MCE_SAFE

/* copy_mc_generic (v6 to v9 of the series, 2020): without ERMS it is copy_mc_fragile. */
SYM_FUNC_START(copy_mc_generic)
	ALT_SITE SITE_COPY_MC_GENERIC
	ALTERNATIVE "jmp copy_mc_fragile", "", X86_FEATURE_ERMS
	movq	%rdx, %rcx
SYM_INNER_LABEL(copy_mc_generic_copy)
	rep movsb
	xorl	%eax, %eax
	ret
.Lgeneric_e_copy:
	movq	%rcx, %rax
	ret
SYM_FUNC_END(copy_mc_generic)

	_ASM_EXTABLE_TYPE copy_mc_generic_copy, .Lgeneric_e_copy, EX_TYPE_DEFAULT_MCE_SAFE

/*
 * The plain memory copy, which recovers from nothing: Linux's memcpy. Returns 0 in rax, as the
 * dispatcher that ends here does.
 */
SYM_FUNC_START(plain_memcpy)
	movl	%edx, %edx
	ALT_SITE SITE_MEMCPY
	ALTERNATIVE_2 "jmp .Lmemcpy_loop", "", X86_FEATURE_REP_GOOD, "jmp .Lmemcpy_erms", X86_FEATURE_ERMS
	movq	%rdx, %rcx
	shrq	$3, %rcx
	andl	$7, %edx
	rep movsq
	movl	%edx, %ecx
	rep movsb
	xorl	%eax, %eax
	ret
.Lmemcpy_erms:
	movq	%rdx, %rcx
	rep movsb
	xorl	%eax, %eax
	ret
.Lmemcpy_loop:
	cmpq	$8, %rdx
	jb	2f
1:	movq	(%rsi), %r8
	movq	%r8, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
	subq	$8, %rdx
	cmpq	$8, %rdx
	jae	1b
2:	testq	%rdx, %rdx
	jz	4f
3:	movb	(%rsi), %al
	movb	%al, (%rdi)
	incq	%rsi
	incq	%rdi
	decq	%rdx
	jnz	3b
4:	xorl	%eax, %eax
	ret
SYM_FUNC_END(plain_memcpy)

/*
 * copy_user_generic: what copy_mc_to_user falls back on. Recovers from page faults on either side,
 * exact to the byte for the string forms; from no machine check.
 */
SYM_FUNC_START(copy_user_generic)
	movl	%edx, %edx
	ALT_SITE SITE_COPY_USER
	ALTERNATIVE_2 "jmp .Luser_loop", "", X86_FEATURE_REP_GOOD, "jmp .Luser_erms", X86_FEATURE_ERMS
	movq	%rdx, %rcx
	shrq	$3, %rcx
	andl	$7, %edx
.Luser_movsq:
	rep movsq
	movl	%edx, %ecx
.Luser_movsb:
	rep movsb
	xorl	%eax, %eax
	ret
.Luser_erms:
	movq	%rdx, %rcx
	jmp	.Luser_movsb
	/* Bytes only: exact on both sides. Words with a byte-wise end would be faster; where this
	 * runs (no REP_GOOD) nothing is fast. */
.Luser_loop:
	movq	%rdx, %rcx
	jrcxz	2f
.Luser_load:
	movb	(%rsi), %al
.Luser_store:
	movb	%al, (%rdi)
	incq	%rsi
	incq	%rdi
	decq	%rcx
	jnz	.Luser_load
2:	xorl	%eax, %eax
	ret
	/* A word may have been half good: the byte form goes on from where the words stopped. */
.Luser_e_movsq:
	leaq	(%rdx, %rcx, 8), %rcx
	jmp	.Luser_movsb
.Luser_e:
	movq	%rcx, %rax
	ret
SYM_FUNC_END(copy_user_generic)

	_ASM_EXTABLE .Luser_movsq, .Luser_e_movsq
	_ASM_EXTABLE .Luser_movsb, .Luser_e
	_ASM_EXTABLE .Luser_load, .Luser_e
	_ASM_EXTABLE .Luser_store, .Luser_e
