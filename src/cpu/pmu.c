/* SPDX-License-Identifier: GPL-2.0-only */
#include "pmu.h"
#include "../platform.h"

#define MSR_IA32_PMC0		 0xc1
#define MSR_IA32_PERFEVTSEL0	 0x186
#define MSR_IA32_PERF_GLOBAL_CTRL 0x38f /* from version 2 of the architectural counters on */
#define MSR_AMD64_PERF_CTL0	 0xc0010200
#define MSR_AMD64_PERF_CTR0	 0xc0010201
#define MSR_AMD64_GLOBAL_CTL	 0xc0000301 /* PerfMonV2: CPUID 8000_0022h EAX[0] */

#define EVENTSEL_USR	(1u << 16)
#define EVENTSEL_OS	(1u << 17)
#define EVENTSEL_ENABLE (1u << 22)

/* Unit mask and event. LLC references are what the core's own caches did not have. */
#define INTEL_LLC_REFERENCES 0x4f2e
#define INTEL_LLC_MISSES     0x412e
#define INTEL_LACKS_BOTH     (3u << 3) /* leaf 0Ah EBX: a set bit says "not available" */
/* Sources beyond the own L2: 02h, 04h (from family 19h on) and 10h are caches, 08h and 40h memory. */
#define AMD_FILLS_17H	      0x5a43
#define AMD_FILLS_19H	      0x5e43
#define AMD_FILLS_MEMORY      0x4843
#define AMD_PERFCTR_EXT_CORE  (1u << 23)

static void decide_intel(struct pmu *p, const struct cpu_source *src)
{
	struct cpuid_regs r;

	p->missing = "CPUID leaf 0Ah offers no counters of the last-level cache";
	if (!cpuid_read(src, 0x0a, 0, &r) || !(r.eax & 0xff) || (r.eax >> 8 & 0xff) < PMU_EVENTS ||
	    r.eax >> 24 < 5 || r.ebx & INTEL_LACKS_BOTH)
		return;
	*p = (struct pmu){
		.control = MSR_IA32_PERFEVTSEL0,
		.counter = MSR_IA32_PMC0,
		.step = 1,
		.global = (r.eax & 0xff) >= 2 ? MSR_IA32_PERF_GLOBAL_CTRL : 0,
		.event = {INTEL_LLC_REFERENCES, INTEL_LLC_MISSES},
		.mask = (1ull << min_of(r.eax >> 16 & 0xff, 63u)) - 1,
	};
}

static void decide_amd(struct pmu *p, const struct machine *m, const struct cpu_source *src)
{
	struct cpuid_regs r;

	p->missing = "no event of data cache fills is known for this family";
	if (m->family < 0x17)
		return;
	p->missing = "CPUID offers no core performance counters (PerfCtrExtCore)";
	if (!cpuid_read(src, 0x80000001, 0, &r) || !(r.ecx & AMD_PERFCTR_EXT_CORE))
		return;
	*p = (struct pmu){
		.control = MSR_AMD64_PERF_CTL0,
		.counter = MSR_AMD64_PERF_CTR0,
		.step = 2,
		.event = {m->family < 0x19 ? AMD_FILLS_17H : AMD_FILLS_19H, AMD_FILLS_MEMORY},
		.mask = (1ull << 48) - 1,
	};
	if (cpuid_read(src, 0x80000022, 0, &r) && r.eax & 1)
		p->global = MSR_AMD64_GLOBAL_CTL;
}

void pmu_decide(struct pmu *p, const struct machine *m, const struct cpu_source *src)
{
	*p = (struct pmu){.missing = "this vendor's counters are not known"};
	if (!platform_ring0())
		p->missing = "a process may not program the performance counters";
	else if (m->vendor == VENDOR_INTEL)
		decide_intel(p, src);
	else if (m->vendor == VENDOR_AMD || m->vendor == VENDOR_HYGON)
		decide_amd(p, m, src);
}

/* The counter first and stopped, so that a control register that enables finds it whole. */
static void put_back(const struct pmu *p, const struct pmu_saved *s)
{
	for (unsigned i = 0; i < PMU_EVENTS; i++) {
		platform_wrmsr(p->control + i * p->step, 0);
		/* Intel takes 32 bits here and extends the sign; more would be a #GP on some. */
		platform_wrmsr(p->counter + i * p->step,
			       p->step == 1 ? (u32)s->counter[i] : s->counter[i]);
		platform_wrmsr(p->control + i * p->step, s->control[i]);
	}
	if (p->global)
		platform_wrmsr(p->global, s->global);
}

int pmu_begin(const struct pmu *p, struct pmu_saved *s)
{
	u64 on = EVENTSEL_ENABLE | EVENTSEL_OS | EVENTSEL_USR;
	int err = 0;

	/* All is read before anything is written: what cannot be given back is not touched. */
	for (unsigned i = 0; i < PMU_EVENTS && !err; i++) {
		err = platform_rdmsr(p->control + i * p->step, &s->control[i]);
		err = err ? err : platform_rdmsr(p->counter + i * p->step, &s->counter[i]);
	}
	if (!err && p->global)
		err = platform_rdmsr(p->global, &s->global);
	if (err)
		return err;
	for (unsigned i = 0; i < PMU_EVENTS && !err; i++) {
		err = platform_wrmsr(p->control + i * p->step, 0);
		err = err ? err : platform_wrmsr(p->counter + i * p->step, 0);
		err = err ? err : platform_wrmsr(p->control + i * p->step, on | p->event[i]);
	}
	if (!err && p->global)
		err = platform_wrmsr(p->global, s->global | ((1u << PMU_EVENTS) - 1));
	if (err)
		put_back(p, s);
	return err;
}

void pmu_end(const struct pmu *p, const struct pmu_saved *s, u64 *counted)
{
	for (unsigned i = 0; i < PMU_EVENTS; i++)
		platform_wrmsr(p->control + i * p->step, p->event[i]); /* stopped */
	for (unsigned i = 0; i < PMU_EVENTS; i++) {
		if (platform_rdmsr(p->counter + i * p->step, &counted[i]))
			counted[i] = 0;
		counted[i] &= p->mask;
	}
	put_back(p, s);
}
