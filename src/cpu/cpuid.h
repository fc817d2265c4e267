/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where facts about a processor come from: CPUID and MSRs, read live, from a dump, or made up by a
 * test. Everything that decides goes through a struct cpu_source, so that `make plan` and the unit
 * tests decide with the same code as the machine does.
 */
#ifndef MCSPIN_CPU_CPUID_H
#define MCSPIN_CPU_CPUID_H

#include "../types.h"

#define MSR_IA32_MISC_ENABLE 0x1a0 /* Intel SDM vol. 4; bit 0: fast strings */

struct cpuid_regs {
	u32 eax, ebx, ecx, edx;
};

struct cpu_source {
	/* Raw CPUID. No check of the maximum leaf: cpuid_read() does that. */
	void (*cpuid)(const struct cpu_source *src, u32 leaf, u32 sub, struct cpuid_regs *out);
	/* 0 or a negative errno; -ENODEV: MSRs cannot be read here (a dump, ring 3). */
	int (*rdmsr)(const struct cpu_source *src, u32 msr, u64 *value);
	const void *data;
};

/* The running processor, its MSRs through platform_rdmsr(). */
extern const struct cpu_source cpu_source_live;

/* CPUID with the maximum leaf of its range respected: false and zeros above it (QEMU and some
 * Intel parts answer with another leaf's data there). */
bool cpuid_read(const struct cpu_source *src, u32 leaf, u32 sub, struct cpuid_regs *out);

static inline void cpuid_raw(u32 leaf, u32 sub, struct cpuid_regs *r)
{
	__asm__ volatile("cpuid"
			 : "=a"(r->eax), "=b"(r->ebx), "=c"(r->ecx), "=d"(r->edx)
			 : "a"(leaf), "c"(sub)
			 : "memory");
}

#endif
