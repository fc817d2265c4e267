/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two events of the processor's own counters: cache lines that a core had to fetch from beyond its
 * own caches, and those of them that no cache of the package had. Decided once from CPUID; then
 * each processor that is to count begins, reads, and gives the registers back as they were.
 *
 * Intel: architectural events, SDM vol. 3, "Predefined Architectural Performance Events", where
 * CPUID leaf 0Ah offers them. AMD from family 17h and Hygon: demand data cache fills by source,
 * PMCx043 of the processor programming references, where PerfCtrExtCore is (CPUID 8000_0001h).
 */
#ifndef MCSPIN_CPU_PMU_H
#define MCSPIN_CPU_PMU_H

#include "features.h"

enum { PMU_FETCHED, PMU_FROM_MEMORY, PMU_EVENTS };

struct pmu {
	const char *missing;   /* NULL, or a clause: why nothing is counted */
	u32 control, counter;  /* MSRs of the first counter */
	u32 step;	       /* from one counter to the next */
	u32 global;	       /* MSR with one enable bit a counter, or 0 */
	u64 event[PMU_EVENTS]; /* event and unit mask */
	u64 mask;	       /* bits of a counter */
};

/* What a processor's registers held before. */
struct pmu_saved {
	u64 control[PMU_EVENTS], counter[PMU_EVENTS], global;
};

void pmu_decide(struct pmu *p, const struct machine *m, const struct cpu_source *src);
/* On the calling processor: count from 0. A negative errno: a register refused (a hypervisor's #GP);
 * then all that was written has been put back. */
int pmu_begin(const struct pmu *p, struct pmu_saved *s);
#define PMU_REFUSED "a performance counter's register refused (#GP)"
#define PMU_STANDS  "the performance counters stand still"
/* Stop, read, and give the registers back. */
void pmu_end(const struct pmu *p, const struct pmu_saved *s, u64 *counted);

#endif
