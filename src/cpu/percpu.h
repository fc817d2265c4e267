/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each processor knows of itself, found through %gs as in Linux: `%gs:0` is the address of
 * the running processor's struct percpu. The platform points GS there before any core code runs
 * on a processor and puts the old base back afterwards.
 */
#ifndef MCSPIN_CPU_PERCPU_H
#define MCSPIN_CPU_PERCPU_H

#include "../mce/record.h"
#include "../types.h"

struct pt_regs;

struct percpu {
	struct percpu *self; /* offset 0: read as %gs:0 */
	u32 cpu;	     /* offset 8: its number, 0 … platform_cpus() - 1 */
	u32 apic_id;
	void *arch; /* the platform's own state of this processor */
	/* The last exception that the extable recovered, for tests. */
	u64 fixup_count;
	u64 fixup_ip, fixup_addr;
	u32 fixup_vector;
	u64 old_cr4, old_xcr0; /* before platform_vector_begin(); XCR0 is never 0 */
	u32 in_mce; /* a machine check is being handled */
	u64 banks_seen; /* one bit for each bank that held something at the last look */
	u32 need_resched; /* what TIF_NEED_RESCHED is to Linux: leave the queue. Set by tests */
	/* Temporary takers of exceptions on this processor (trap.h). */
	bool (*hooks[32])(struct pt_regs *regs, u64 addr);
	struct mce_record mce;
} __aligned(CACHE_LINE);

static_assert(offsetof(struct percpu, self) == 0, "this_cpu() reads %gs:0");
static_assert(offsetof(struct percpu, cpu) == 8, "smp_processor_id() reads %gs:8");

static inline struct percpu *this_cpu(void)
{
	struct percpu *p;

	__asm__ volatile("movq %%gs:0, %0" : "=r"(p));
	return p;
}

static inline u32 smp_processor_id(void)
{
	u32 cpu;

	__asm__ volatile("movl %%gs:8, %0" : "=r"(cpu));
	return cpu;
}

#endif
