/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vcpu_is_preempted() can call. Linux's callee-save convention: argument in rdi (a processor
 * number), answer in rax, every other register preserved, so that the call site costs no spill.
 */
#include "linkage.h"

SYM_FUNC_START(native_vcpu_is_preempted)
	xorl	%eax, %eax
	ret
SYM_FUNC_END(native_vcpu_is_preempted)

/* KVM: the byte `preempted` at offset 16 of the processor's 64-byte steal-time record. */
SYM_FUNC_START(kvm_vcpu_is_preempted)
	movq	kvm_steal_time(%rip), %rax
	pushq	%rdi
#ifdef MUTANT_KVM_BYTE
	incq	%rdi
#endif
	shlq	$6, %rdi
	cmpb	$0, 16(%rax, %rdi)
	setne	%al
	movzbl	%al, %eax
	popq	%rdi
	ret
SYM_FUNC_END(kvm_vcpu_is_preempted)

/* Hyper-V offers nothing, and yet Linux installs a function that says so. */
SYM_FUNC_START(hv_vcpu_is_preempted)
	xorl	%eax, %eax
	ret
SYM_FUNC_END(hv_vcpu_is_preempted)

/* Xen: the u32 `state` at the head of the processor's run state area; RUNSTATE_running is 0. */
SYM_FUNC_START(xen_vcpu_is_preempted)
	movq	xen_runstate(%rip), %rax
	pushq	%rdi
	shlq	$6, %rdi
	cmpl	$0, (%rax, %rdi)
	setne	%al
	movzbl	%al, %eax
	popq	%rdi
	ret
SYM_FUNC_END(xen_vcpu_is_preempted)

SYM_FUNC_START(injected_vcpu_is_preempted)
	movq	injected_preempted(%rip), %rax
	cmpb	$0, (%rax, %rdi)
	setne	%al
	movzbl	%al, %eax
	ret
SYM_FUNC_END(injected_vcpu_is_preempted)
