/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The way into and out of an exception, the switch to an application processor's own stack, and
 * the two halves of a jump out of a crash. Machine only; host programs never reach it.
 */
#include "linkage.h"

/* Vectors on which the processor pushes an error code itself: 8, 10-14, 17, 21, 29, 30. */
#define HAS_ERROR_CODE 0x60227d00

	.balign 16
	.globl trap_stubs
	.hidden trap_stubs
trap_stubs:
	.set vector, 0
	.rept 32
	.balign 16
	.if ((HAS_ERROR_CODE >> vector) & 1) == 0
	pushq	$0
	.endif
	pushq	$vector
	jmp	trap_common
	.set vector, vector + 1
	.endr

/* Builds struct pt_regs (src/trap/ptrace.h) and calls trap_dispatch(regs). AC may be set by the
 * interrupted code; the handlers touch no user page. DF may be set, and C wants it clear. */
trap_common:
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	cld
	movq	%rsp, %rdi
	movq	%rsp, %rbp
	andq	$-16, %rsp
	call	trap_dispatch
	movq	%rbp, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	addq	$16, %rsp
	iretq

/* int context_save(struct jump_context *rdi): 0 now, 1 when context_jump() comes back. */
SYM_FUNC_START(context_save)
	movq	%rbx, 0(%rdi)
	movq	%rbp, 8(%rdi)
	movq	%r12, 16(%rdi)
	movq	%r13, 24(%rdi)
	movq	%r14, 32(%rdi)
	movq	%r15, 40(%rdi)
	leaq	8(%rsp), %rax
	movq	%rax, 48(%rdi)
	movq	(%rsp), %rax
	movq	%rax, 56(%rdi)
	xorl	%eax, %eax
	ret
SYM_FUNC_END(context_save)

/* void context_jump(struct jump_context *rdi). Through IRETQ, which also ends the blocking of NMIs
 * when this comes from an NMI. Interrupts stay off. */
SYM_FUNC_START(context_jump)
	movq	0(%rdi), %rbx
	movq	8(%rdi), %rbp
	movq	16(%rdi), %r12
	movq	24(%rdi), %r13
	movq	32(%rdi), %r14
	movq	40(%rdi), %r15
	movl	$1, %eax
	movl	%ss, %ecx
	pushq	%rcx
	pushq	48(%rdi)
	pushq	$2
	movl	%cs, %ecx
	pushq	%rcx
	pushq	56(%rdi)
	iretq
SYM_FUNC_END(context_jump)

/* void call_on_stack(void (*rdi)(void *), void *rsi argument, void *rdx top of the new stack) */
SYM_FUNC_START(call_on_stack)
	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rdx, %rsp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	ret
SYM_FUNC_END(call_on_stack)
