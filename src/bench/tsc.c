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

/* One reading of the timer and the TSC as close together as a few tries allow: an interrupt taken
 * by the host, or a slow bus, between the two would go into the frequency. */
struct reading {
	u64 timer, tsc;
};

static struct reading read_both(const struct ref_timer *t)
{
	struct reading best = {0};
	u64 least = ~0ull;

	for (unsigned i = 0; i < 4; i++) {
		u64 before = rdtsc_ordered();
		u64 timer = t->read(t);
		u64 gap = rdtsc_ordered() - before;

		if (gap < least) {
			least = gap;
			best = (struct reading){timer, before + gap / 2};
		}
	}
	return best;
}

/* TSC frequency by one window of the timer; 0 when the timer stands. */
static u64 measure_once(const struct ref_timer *t)
{
	u64 mask = t->bits >= 64 ? ~0ull : (1ull << t->bits) - 1;
	u64 want = t->hz * WINDOW_US / 1000000;
	unsigned long flags = platform_irq_save();
	struct reading start = read_both(t), end = start;
	u64 gone = 0;

	/* At the highest credible frequency the window is a fifth of these ticks: a timer that stands or
	 * crawls ends this. The count is for a TSC that stands. */
	for (unsigned i = 0; gone < want && i < 1000000; i++) {
		end = read_both(t);
		gone = (end.timer - start.timer) & mask;
		if (end.tsc - start.tsc > HZ_MAX / 1000000 * WINDOW_US * 5)
			break;
	}
	platform_irq_restore(flags);
	if (gone < want)
		return 0;
	/* No 128-bit division here: the window is short, so 64 bits hold the product. */
	if (end.tsc - start.tsc > ~0ull / t->hz)
		return (end.tsc - start.tsc) / gone * t->hz;
	return (end.tsc - start.tsc) * t->hz / gone;
}

static u64 median3(u64 a, u64 b, u64 c)
{
	return max_of(min_of(a, b), min_of(max_of(a, b), c));
}

static void add_source(const char *name, u64 hz)
{
	struct tsc_source *s = &tsc_info.sources[tsc_info.source_count];

	if (tsc_info.source_count == ARRAY_SIZE(tsc_info.sources))
		return;
	*s = (struct tsc_source){name, hz, hz >= HZ_MIN && hz <= HZ_MAX};
	tsc_info.source_count++;
	if (!s->credible)
		event_warn(hz ? "TSC frequency by %s is not credible: %llu Hz, discarded"
			      : "TSC frequency by %s: the timer stands still (%llu Hz), discarded",
			   name, (unsigned long long)hz);
}

/* Leaves are asked only below the maximum leaf: cpuid_read() answers false above it. */
static void ask_cpuid(void)
{
	struct cpuid_regs r;

	/* Intel SDM, leaf 15h: crystal ECX times EBX / EAX; ECX may be 0 (unknown). */
	if (cpuid_read(&cpu_source_live, 0x15, 0, &r) && r.eax && r.ebx && r.ecx)
		add_source("cpuid-15h", (u64)r.ecx * r.ebx / r.eax);
	/* Hypervisors' timing leaf: kHz in EAX. */
	if (boot_cpu_data.hv_base == 0x40000000u) {
		cpuid_raw(0x40000000u, 0, &r);
		if (r.eax >= 0x40000010u && r.eax < 0x40000100u) {
			cpuid_raw(0x40000010u, 0, &r);
			if (r.eax)
				add_source("hypervisor-leaf", (u64)r.eax * 1000);
		}
	}
}

static void ask_timers(void)
{
	struct ref_timer timers[5];
	unsigned count = platform_ref_timers(timers, ARRAY_SIZE(timers));

	for (unsigned i = 0; i < count; i++) {
		const struct ref_timer *t = &timers[i];
		u64 first = measure_once(t);

		/* A timer that stands answers 0 and is not asked again. */
		add_source(t->name, first ? median3(first, measure_once(t), measure_once(t)) : 0);
	}
}

/* Leaf 16h rounds the base frequency to whole MHz, up to 0.2 % off: good for a cross-check, and
 * better than nothing where no timer answers. */
static void ask_base_frequency(void)
{
	struct cpuid_regs r;

	if (cpuid_read(&cpu_source_live, 0x16, 0, &r) && (r.eax & 0xffff))
		add_source("cpuid-16h", (u64)(r.eax & 0xffff) * 1000000);
}

static void compare_sources(const struct tsc_source *a, const struct tsc_source *b)
{
	bool rounded = !memcmp(b->name, "cpuid-16h", 10);

	/* A window of 10 ms under emulation says nothing that fine. */
	if (apart(a->hz, b->hz) * (rounded ? 500 : 1000) > a->hz && !boot_cpu_data.emulated)
		event_warn("TSC frequency: %s says %llu Hz, %s says %llu Hz", a->name,
			   (unsigned long long)a->hz, b->name, (unsigned long long)b->hz);
}

void tsc_calibrate(void)
{
	const struct tsc_source *best = NULL;

	tsc_info.invariant = boot_cpu_has(X86_FEATURE_NONSTOP_TSC);
	tsc_info.source_count = 0;
	ask_cpuid();
	ask_timers();
	ask_base_frequency();
	for (unsigned i = 0; i < tsc_info.source_count; i++) {
		const struct tsc_source *s = &tsc_info.sources[i];

		if (!s->credible)
			continue;
		if (!best) {
			best = s;
			tsc_info.hz = s->hz;
			tsc_info.source = s->name;
			continue;
		}
		if (!tsc_info.second_hz) {
			tsc_info.second_hz = s->hz;
			tsc_info.second_source = s->name;
		}
		compare_sources(best, s);
	}
	if (!best)
		event_warn("TSC frequency unknown: no timer could be believed; ticks only");
	else if (!tsc_info.second_hz)
		event_warn("TSC frequency: only %s could be asked, nothing confirms it", best->name);
}

bool tsc_comparable(void)
{
	return tsc_info.skew_known && !tsc_info.skewed;
}

static void tell_or_null(const char *key, bool known, u64 value)
{
	if (known)
		event_u64(key, value);
	else
		event_null(key);
}

void tsc_tell(void)
{
	event_object("tsc");
	tell_or_null("hz", tsc_info.hz, tsc_info.hz);
	event_str("source", tsc_info.source);
	tell_or_null("second_hz", tsc_info.second_hz, tsc_info.second_hz);
	event_str("second_source", tsc_info.second_source);
	event_bool("invariant", tsc_info.invariant);
	tell_or_null("skew", tsc_info.skew_known, tsc_info.skew);
	tell_or_null("skew_error", tsc_info.skew_known, tsc_info.skew_error);
	event_array("sources");
	for (unsigned i = 0; i < tsc_info.source_count; i++) {
		const struct tsc_source *s = &tsc_info.sources[i];

		event_object(NULL);
		event_str("name", s->name);
		event_u64("hz", s->hz);
		event_bool("credible", s->credible);
		event_close();
	}
	event_close();
	event_close();
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

void tsc_note_skew(s64 offset, u64 error)
{
	u64 skew = (u64)(offset < 0 ? -offset : offset);

	tsc_info.skew = max_of(tsc_info.skew, skew);
	tsc_info.skew_error = max_of(tsc_info.skew_error, error);
	tsc_info.skewed |= skew > error;
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
		tsc_note_skew(offset, error);
	}
}
