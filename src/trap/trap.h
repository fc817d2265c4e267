/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the core does with an exception. The platform's entry code saves the registers and calls
 * handle_trap() on every vector below 32; the core recovers (extable, machine check, breakpoint,
 * watchpoint) by editing the registers, or says that it cannot, and the platform writes the
 * crash report.
 */
#ifndef MCSPIN_TRAP_TRAP_H
#define MCSPIN_TRAP_TRAP_H

#include "ptrace.h"

/* True when `regs` was edited so that execution may continue. `addr` is CR2 for #PF, else 0.
 * Runs on any processor with interrupts off, and touches no site that may be patched. */
bool handle_trap(struct pt_regs *regs, unsigned vector, u64 addr);

/* The short name, "#PF", of a vector below 32. */
const char *trap_name(unsigned vector);

/*
 * A temporary taker of one vector on the calling processor (tests: #DB watchpoints, an expected
 * #PF without an extable entry). Returns true if it dealt with the trap. One at a time for each
 * vector and processor; NULL ends it.
 */
typedef bool (*trap_hook)(struct pt_regs *regs, u64 addr);
void trap_set_hook(unsigned vector, trap_hook hook);

#endif
