/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The registers at a trap, in the order the entry code pushes them (asm/trap_entry.S) and under
 * the kernel's names.
 */
#ifndef MCSPIN_TRAP_PTRACE_H
#define MCSPIN_TRAP_PTRACE_H

#include "../types.h"

struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx;
	u64 r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 vector;	/* pushed by the stub */
	u64 error_code; /* by the processor, or 0 by the stub */
	u64 ip, cs, flags, sp, ss;
};

static_assert(sizeof(struct pt_regs) == 22 * 8, "asm/trap_entry.S pushes 22 words");

#define X86_EFLAGS_TF (1u << 8)
#define X86_EFLAGS_IF (1u << 9)
#define X86_EFLAGS_DF (1u << 10)
#define X86_EFLAGS_AC (1u << 18)

#define X86_TRAP_DE  0
#define X86_TRAP_DB  1
#define X86_TRAP_NMI 2
#define X86_TRAP_BP  3
#define X86_TRAP_UD  6
#define X86_TRAP_DF  8
#define X86_TRAP_GP  13
#define X86_TRAP_PF  14
#define X86_TRAP_AC  17
#define X86_TRAP_MC  18

#endif
