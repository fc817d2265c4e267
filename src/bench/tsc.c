/* SPDX-License-Identifier: GPL-2.0-only */
#include "tsc.h"
#include "../alt/alternative.h"
#include "../cpu/features.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"

struct tsc_info tsc_info;

#define HZ_MIN	      100000000ull /* outside of these a reading is not credible */
#define HZ_MAX	      10000000000ull
#define WINDOW_US     10000 /* of one calibration reading */
#define MAX_SOURCES   8
#define SKEW_ROUNDS   64

u64 rdtsc_ordered(void)
{
	u32 low, high;

	__asm__ volatile(ALT_SITE(SITE_RDTSC_ORDERED)
				 ALTERNATIVE_2("rdtsc", "lfence; rdtsc", X86_FEATURE_LFENCE_RDTSC,
					       "rdtscp", X86_FEATURE_RDTSCP)
			 : "=a"(low), "=d"(high)
			 :
			 : "rcx", "memory");
	return (u64)high << 32 | low;
}

u64 tsc_begin(void)
{
	u32 low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (u64)high << 32 | low;
}

u64 tsc_end(void)
{
	u32 low, high;

	__asm__ volatile(ALT_SITE(SITE_TSC_END)
				 ALTERNATIVE("lfence; rdtsc; lfence", "rdtscp; lfence",
					     X86_FEATURE_RDTSCP)
			 : "=a"(low), "=d"(high)
			 :
			 : "rcx", "memory");
	return (u64)high << 32 | low;
}

u64 tsc_from_us(u64 us)
{
	return us * ((tsc_info.hz ? tsc_info.hz : 1000000000ull) / 1000000);
}

u64 tsc_to_ns(u64 ticks)
{
	u64 hz = tsc_info.hz ? tsc_info.hz : 1000000000ull;

	return ticks / hz * 1000000000ull + ticks % hz * 1000000000ull / hz;
}

void tsc_spin(u64 ticks)
{
	u64 start = rdtsc_ordered();

	/* The second bound is for a TSC that stands still. */
	for (u64 i = 0; rdtsc_ordered() - start < ticks && i < ticks; i++)
		cpu_relax();
}

/* -------------------------------------------------------------------- frequency */

struct source {
	const char *name;
	u64 hz;
};

/* Ticks of the timer in about WINDOW_US, and of the TSC meanwhile; 0 when the timer stands. */
static u64 measure_once(const struct ref_timer *t)
{
	u64 mask = t->bits >= 64 ? ~0ull : (1ull << t->bits) - 1;
	u64 want = t->hz * WINDOW_US / 1000000;
	unsigned long flags = platform_irq_save();
	u64 start = t->read(t) & mask;
	u64 tsc_start = rdtsc_ordered();
	u64 gone = 0, tsc = 0;

	/* An iteration costs at least tens of nanoseconds: a timer that stands ends this soon. */
	for (unsigned i = 0; gone < want && i < 4000000; i++) {
		gone = ((t->read(t) & mask) - start) & mask;
		tsc = rdtsc_ordered();
		if (tsc - tsc_start > 500000000 && !gone)
			break;
	}
	platform_irq_restore(flags);
	if (gone < want)
		return 0;
	return mul_div(tsc - tsc_start, t->hz, gone);
}

static u64 median3(u64 a, u64 b, u64 c)
{
	return max_of(min_of(a, b), min_of(max_of(a, b), c));
}

static bool credible(const struct source *s)
{
	if (s->hz >= HZ_MIN && s->hz <= HZ_MAX)
		return true;
	if (s->hz)
		event_warn("TSC frequency by %s is not credible: %llu Hz, discarded", s->name,
			   (unsigned long long)s->hz);
	return false;
}

static unsigned from_cpuid(struct source *out)
{
	struct cpuid_regs r;
	unsigned n = 0;

	/* Intel SDM, leaf 15h: crystal ECX times EBX / EAX; ECX may be 0 (unknown). */
	if (cpuid_read(&cpu_source_live, 0x15, 0, &r) && r.eax && r.ebx && r.ecx)
		out[n++] = (struct source){"cpuid-15h", (u64)r.ecx * r.ebx / r.eax};
	/* Hypervisors' timing leaf: kHz in EAX. */
	if (boot_cpu_data.hv_base == 0x40000000u) {
		cpuid_raw(0x40000000u, 0, &r);
		if (r.eax >= 0x40000010u && r.eax < 0x40000100u) {
			cpuid_raw(0x40000010u, 0, &r);
			if (r.eax)
				out[n++] = (struct source){"hypervisor-leaf", (u64)r.eax * 1000};
		}
	}
	return n;
}

static unsigned collect_sources(struct source *out)
{
	struct ref_timer timers[4];
	unsigned n = from_cpuid(out);
	unsigned count = platform_ref_timers(timers, ARRAY_SIZE(timers));

	for (unsigned i = 0; i < count; i++) {
		const struct ref_timer *t = &timers[i];
		u64 first = measure_once(t);

		/* A timer that stands answers 0 and is not asked again. */
		out[n++] = (struct source){
			t->name, first ? median3(first, measure_once(t), measure_once(t)) : 0};
	}
	return n;
}

static void compare_sources(const struct source *a, const struct source *b)
{
	u64 apart = a->hz > b->hz ? a->hz - b->hz : b->hz - a->hz;

	/* A hundredth of the measuring window under emulation says nothing. */
	if (apart * 1000 > a->hz && !boot_cpu_data.emulated)
		event_warn("TSC frequency: %s says %llu Hz, %s says %llu Hz", a->name,
			   (unsigned long long)a->hz, b->name, (unsigned long long)b->hz);
}

void tsc_calibrate(void)
{
	struct source sources[MAX_SOURCES];
	unsigned n = collect_sources(sources);
	const struct source *best = NULL;

	tsc_info.invariant = boot_cpu_has(X86_FEATURE_NONSTOP_TSC);
	for (unsigned i = 0; i < n; i++) {
		if (!credible(&sources[i]))
			continue;
		if (!best) {
			best = &sources[i];
			tsc_info.hz = best->hz;
			tsc_info.source = best->name;
			continue;
		}
		if (!tsc_info.second_hz) {
			tsc_info.second_hz = sources[i].hz;
			tsc_info.second_source = sources[i].name;
		}
		compare_sources(best, &sources[i]);
	}
	if (!best)
		event_warn("TSC frequency unknown: no timer could be believed; ticks only");
}

/* -------------------------------------------------------------------- skew */

/* One line for the question, one for the answer: the control processor stamps, the other answers
 * with its own time, the control processor stamps again. */
static struct {
	u64 ask __aligned(CACHE_LINE);
	u64 answer __aligned(CACHE_LINE);
	u64 stamp;
} skew;

static void answer_skew(void *arg)
{
	u64 start = rdtsc_ordered();

	for (u64 round = 1; round <= SKEW_ROUNDS; round++) {
		while (__atomic_load_n(&skew.ask, __ATOMIC_ACQUIRE) < round) {
			if (rdtsc_ordered() - start > tsc_from_us(500000))
				return;
			cpu_relax();
		}
		skew.stamp = rdtsc_ordered();
		__atomic_store_n(&skew.answer, round, __ATOMIC_RELEASE);
	}
}

/* The round with the shortest way there and back bounds the difference best. */
static bool skew_of(unsigned cpu, s64 *offset, u64 *error)
{
	u64 best = ~0ull, start = rdtsc_ordered();

	skew.ask = skew.answer = 0;
	if (platform_post(cpu, answer_skew, NULL))
		return false;
	for (u64 round = 1; round <= SKEW_ROUNDS; round++) {
		u64 before = rdtsc_ordered(), after;

		__atomic_store_n(&skew.ask, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(&skew.answer, __ATOMIC_ACQUIRE) < round) {
			if (rdtsc_ordered() - start > tsc_from_us(500000))
				break;
			cpu_relax();
		}
		after = rdtsc_ordered();
		if (__atomic_load_n(&skew.answer, __ATOMIC_ACQUIRE) >= round &&
		    after - before < best) {
			best = after - before;
			*offset = (s64)(skew.stamp - before - best / 2);
			*error = best / 2;
		}
	}
	return platform_wait(cpu, 1000) == 0 && best != ~0ull;
}

void tsc_measure_skew(void)
{
	unsigned self = smp_processor_id();

	tsc_info.skew_known = true;
	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		s64 offset = 0;
		u64 error = 0;

		if (cpu == self || !platform_cpu_usable(cpu))
			continue;
		if (!skew_of(cpu, &offset, &error)) {
			tsc_info.skew_known = false;
			event_warn("TSC of processor %u could not be compared", cpu);
			continue;
		}
		tsc_info.skew = max_of(tsc_info.skew, (u64)(offset < 0 ? -offset : offset));
		tsc_info.skew_error = max_of(tsc_info.skew_error, error);
	}
}
