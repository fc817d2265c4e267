/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work on other processors, put together from platform_post() and platform_wait(), and the small
 * instructions that go with it. Every wait here has a bound.
 */
#ifndef MCSPIN_CPU_SMP_H
#define MCSPIN_CPU_SMP_H

#include "../types.h"

static inline void cpu_relax(void)
{
	__asm__ volatile("pause" ::: "memory");
}

/* Serialise instruction fetch on this processor, by CPUID: works in every ring and on every
 * processor (Linux's sync_core() uses IRET or SERIALIZE for speed; here it is outside timing). */
static inline void sync_core(void)
{
	u32 a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d)::"memory");
}

/* Run fn(arg) on `cpu`, which may be the caller's, and wait. 0, -ENODEV, -EBUSY or -ETIMEDOUT. */
int on_cpu(unsigned cpu, void (*fn)(void *), void *arg, u32 ms);
/* Run fn(arg) on every usable processor at the same time, the caller's included; the caller runs
 * it last. Returns how many ran it to its end. */
unsigned on_each_cpu(void (*fn)(void *), void *arg, u32 ms);
/* Usable processors, and the n-th of them (MAX_CPUS when there are fewer). */
unsigned usable_cpus(void);
unsigned nth_usable_cpu(unsigned n);
/* The first usable processor that is not the caller's, or MAX_CPUS. */
unsigned another_cpu(void);

/* A barrier for `n` processors, used once. */
struct cpu_barrier {
	u32 n, arrived;
};
/* False when the others did not arrive within `ticks` TSC ticks. */
bool cpu_barrier_wait(struct cpu_barrier *b, u64 ticks);

#endif
