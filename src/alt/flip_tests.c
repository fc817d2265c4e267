/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Static keys while everybody looks. The sites below are run through by all other processors as
 * fast as they can, while the control processor flips the key. Each site yields one of two numbers;
 * any other, any exception that nobody expected, or a processor that does not see the last flip is
 * a failure. What the stress cannot show (a missing serialisation that goes well by luck) is
 * asserted on the recorded order of writes and syncs in tests/host/test_jump_label.c.
 */
#include "jump_label.h"
#include "text-patching.h"
#include "alternative.h"
#include "../bench/bench.h"
#include "../bench/tsc.h"
#include "../cpu/features.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"

static DEFINE_STATIC_KEY_FALSE(flip_key);
static DEFINE_STATIC_KEY_FALSE(count_key);
static DEFINE_STATIC_KEY_TRUE(true_key);

#define OFF 0x5a
#define ON  0xa5

static noinline u32 unlikely_site(void)
{
	return static_branch_unlikely(&flip_key) ? ON : OFF;
}

static noinline u32 likely_site(void)
{
	return static_branch_likely(&flip_key) ? ON : OFF;
}

static noinline bool counted(void)
{
	return static_branch_unlikely(&count_key);
}

static noinline bool by_default(void)
{
	return static_branch_likely(&true_key);
}

TEST(alternatives, static_key_meaning, "static keys switch, count and refuse as Linux's do",
     NEED_PATCHED)
{
	check(t, by_default(), "a key that is true by default is false");
	check(t, !static_branch_disable(&true_key) && !by_default(), "it could not be disabled");
	check(t, !static_branch_disable(&true_key) && !by_default(), "disabling twice changed it");
	check(t, !static_branch_enable(&true_key) && by_default(), "it could not be enabled");
	check(t, !static_branch_enable(&true_key) && by_default(), "enabling twice changed it");
	check(t, static_key_count(&true_key.key) == 1, "enabling twice counted twice");
	check(t, !counted(), "a key that is false by default is true");
	check(t, !static_branch_inc(&count_key) && counted(), "the first inc did not enable");
	check(t, !static_branch_inc(&count_key) && counted(), "the second inc disabled");
	check(t, !static_branch_dec(&count_key) && counted(), "the first dec disabled a key held twice");
	check(t, !static_branch_dec(&count_key) && !counted(), "the last dec did not disable");
	check(t, static_branch_dec(&count_key) < 0, "a count below zero was accepted");
	check(t, !counted() && !static_key_count(&count_key.key), "the refused dec left something");
	check(t, !static_branch_inc(&count_key) && !static_branch_inc(&count_key), "inc twice");
	check(t, static_branch_disable(&count_key) < 0 && counted(), "a key held twice was disabled");
	check(t, !static_branch_dec(&count_key) && !static_branch_dec(&count_key), "dec twice");
}

/* -------------------------------------------------------------------- traffic */

static struct traffic {
	u64 seen[2]; /* off, on */
	u64 torn;
	u32 value; /* a wrong one, for the report */
	u32 started;
} __aligned(CACHE_LINE) *traffic;
static u32 stop;
static u64 traffic_limit; /* ticks: nobody runs for ever, whatever becomes of the flipper */

static void look(struct traffic *own, u32 value)
{
	if (value == ON || value == OFF) {
		own->seen[value == ON]++;
	} else {
		own->torn++;
		own->value = value;
	}
}

static void run_through(void *arg)
{
	struct traffic *own = &traffic[smp_processor_id()];
	u64 start = rdtsc_ordered();

	__atomic_store_n(&own->started, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		for (unsigned i = 0; i < 64; i++) {
			look(own, unlikely_site());
			look(own, likely_site());
		}
		if (rdtsc_ordered() - start > traffic_limit)
			break;
	}
}

/* Traffic on `n` processors besides this one. Returns how many run. */
static unsigned start_traffic(unsigned n, u32 seconds)
{
	unsigned self = smp_processor_id(), running = 0;
	u64 start = rdtsc_ordered();

	__atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
	traffic_limit = tsc_from_us(seconds * 1000000ull);
	for (unsigned cpu = 0; cpu < platform_cpus() && running < n; cpu++) {
		memset(&traffic[cpu], 0, sizeof(traffic[cpu]));
		if (cpu == self || !platform_cpu_usable(cpu) ||
		    platform_post(cpu, run_through, NULL))
			continue;
		running++;
		while (!__atomic_load_n(&traffic[cpu].started, __ATOMIC_ACQUIRE) &&
		       rdtsc_ordered() - start < traffic_limit)
			cpu_relax();
	}
	return running;
}

static void end_traffic(u32 ms)
{
	unsigned self = smp_processor_id();

	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		if (cpu != self && platform_cpu_usable(cpu) && traffic[cpu].started)
			platform_wait(cpu, ms);
	}
}

/* -------------------------------------------------------------------- the stress */

struct stress {
	u64 flips, lost;
	int err;
};

/* The whole stress is for who asks for it by name; a default run keeps to its time budget. Emulated
 * processors beyond the real ones of the host make a flip 170 times slower. */
static u64 flips_wanted(void)
{
	bool crowd = usable_cpus() > 2;
	bool slow = crowd && boot_cpu_data.emulated;

	if (options.quick)
		return slow ? 100 : 2000;
	if (*options.test)
		return slow ? 2000 : 100000;
	return slow ? 200 : crowd ? 5000 : 20000;
}

#define LONGER 4  /* for the least number of flips */
#define MANY   50 /* flips, after which it is strange that a processor never saw one of the values */

static u32 stress_seconds(void)
{
	if (!*options.test)
		return 8;
	return boot_cpu_data.emulated ? 900 : 240; /* the rig knows how busy its host is */
}

/* Asked for by name, the number is the point; else a slow machine may do fewer, and says so. A flip
 * takes three NMIs for each processor, of which an emulator runs as many at once as its host has. */
static u64 flips_least(u64 wanted)
{
	if (*options.test)
		return wanted;
	return boot_cpu_data.emulated && usable_cpus() > 4 ? 4 : MANY;
}

static void flip_away(struct stress *s, u64 wanted)
{
	u64 limit = tsc_from_us(stress_seconds() * 1000000ull), least = flips_least(wanted);
	u64 last = *options.test ? limit : LONGER * limit, start = rdtsc_ordered(), now = start;

	while (s->flips < wanted && !s->err && now - start < (s->flips < least ? last : limit)) {
		bool on = !(s->flips & 1);

		s->err = on ? static_branch_enable(&flip_key) : static_branch_disable(&flip_key);
		s->flips++;
		s->lost += unlikely_site() != (on ? ON : OFF) || likely_site() != (on ? ON : OFF);
		now = rdtsc_ordered();
		if (!(s->flips & 255) || now - start > limit)
			event_beacon("alternatives.live_flips");
	}
}

struct last_look {
	u32 want;
	u32 wrong;
};

static void look_last(void *arg)
{
	struct last_look *l = arg;

	if (unlikely_site() != l->want || likely_site() != l->want)
		__atomic_fetch_add(&l->wrong, 1, __ATOMIC_RELAXED);
}

static void judge_traffic(struct test_run *t, bool both)
{
	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		const struct traffic *own = &traffic[cpu];

		if (!own->started)
			continue;
		check(t, !own->torn, "processor %u got %u, which no site yields, %llu times", cpu,
		      own->value, (unsigned long long)own->torn);
		check(t, !both || (own->seen[0] && own->seen[1]),
		      "processor %u saw off %llu and on %llu times", cpu,
		      (unsigned long long)own->seen[0], (unsigned long long)own->seen[1]);
	}
}

static void tell_flips(const struct stress *s, unsigned cpus, u64 hits, u64 late, u64 ticks)
{
	event_begin("key_flips");
	event_u64("flips", s->flips);
	event_u64("cpus", cpus);
	event_u64("int3_hits", hits);
	event_u64("int3_late", late);
	event_u64("lost", s->lost);
	event_u64("ticks", ticks);
	event_end();
}

TEST(alternatives, live_flips, "a key flipped under traffic tears no instruction, loses no update "
			       "and leaves no exception", NEED_PATCHED | NEED_2_CPUS)
{
	u64 hits = poke_int3_hits(), late = poke_int3_late(), wanted = flips_wanted(), start;
	size_t bytes = platform_cpus() * sizeof(*traffic);
	struct last_look last = {0};
	struct stress s = {0};
	unsigned cpus;

	traffic = platform_alloc(bytes);
	if (!traffic) {
		check_error(t, "no memory for the counters");
		return;
	}
	cpus = start_traffic(MAX_CPUS, LONGER * stress_seconds() + 10) + 1;
	start = rdtsc_ordered();
	flip_away(&s, wanted);
	start = rdtsc_ordered() - start;
	end_traffic(5000);
	hits = poke_int3_hits() - hits;
	late = poke_int3_late() - late;
	check(t, !s.err, "flip %llu returned %d", (unsigned long long)s.flips, s.err);
	check(t, s.flips >= flips_least(wanted), "only %llu of %llu flips in %u s",
	      (unsigned long long)s.flips, (unsigned long long)wanted, stress_seconds());
	check(t, !s.lost, "%llu flips were not seen by the processor that made them",
	      (unsigned long long)s.lost);
	check(t, hits > 0, "no processor met a breakpoint: the live path was not taken");
	judge_traffic(t, s.flips >= MANY);
	last.want = static_key_count(&flip_key.key) > 0 ? ON : OFF;
	on_each_cpu(look_last, &last, 2000);
	check(t, !last.wrong, "%u processors do not see the last flip", last.wrong);
	tell_flips(&s, cpus, hits, late, start);
	static_branch_disable(&flip_key);
	platform_free(traffic, bytes);
	check_note(t, "%llu flips on %u processors, %llu int3 hits, %llu after their batch, 0 torn, "
		      "0 lost", (unsigned long long)s.flips, cpus, (unsigned long long)hits,
		   (unsigned long long)late);
}

/* -------------------------------------------------------------------- what it costs */

#define COST_SAMPLES 31

static const struct alt_plan *longest_plan(void)
{
	const struct alt_plan *plans, *best = NULL;
	unsigned count;

	plans = alt_plans(&count);
	for (unsigned i = 0; i < count; i++) {
		if (plans[i].id == SITE_ALT_TEST && !plans[i].refused &&
		    (!best || plans[i].len < best->len))
			best = &plans[i];
	}
	return best;
}

BENCH(patch_site, "verify, write, serialise and read back one site of the alternatives suite",
      NEED_PATCHED, 1)
{
	const struct alt_plan *real = longest_plan();
	static u8 disturbed[COST_SAMPLES];
	static u64 samples[COST_SAMPLES];
	static struct alt_plan again;
	struct bench_param params[] = {{"bytes", NULL, real ? real->len : 0}, {NULL, NULL, 0}};

	if (!real)
		return;
	memcpy(&again, real, sizeof(again));
	memcpy(again.before, real->after, again.len);
	if (platform_text_open() == TEXT_WAY_NONE)
		return;
	for (unsigned i = 0; i < COST_SAMPLES; i++) {
		u64 start = tsc_begin();

		alt_write(&again);
		samples[i] = bench_units(tsc_end() - start);
	}
	platform_text_close();
	bench_emit(b, "write", params, bench_unit(), samples, disturbed, COST_SAMPLES);
}

/* One key with two sites, flipped while `others` processors run through them. */
static void flip_latency(const struct bench *b, unsigned others)
{
	struct bench_param params[] = {{"cpus", NULL, others + 1}, {"sites", NULL, 2}, {NULL, NULL, 0}};
	static u8 disturbed[COST_SAMPLES];
	static u64 samples[COST_SAMPLES];
	unsigned n = !boot_cpu_data.emulated || others < 2 ? COST_SAMPLES : others < 8 ? 11 : 3;

	start_traffic(others, 20);
	for (unsigned i = 0; i < n; i++) {
		if (i & 1 ? static_branch_disable(&flip_key) : static_branch_enable(&flip_key))
			break;
		samples[i] = bench_units(static_key_flip_ticks());
	}
	end_traffic(5000);
	static_branch_disable(&flip_key);
	bench_emit(b, "under_traffic", params, bench_unit(), samples, disturbed, n);
}

BENCH(key_flip, "flip a static key of two sites while N processors run through them", NEED_PATCHED, 2)
{
	size_t bytes = platform_cpus() * sizeof(*traffic);
	unsigned all = usable_cpus();

	traffic = platform_alloc(bytes);
	if (!traffic)
		return;
	for (unsigned n = 1; n < all; n *= 2)
		flip_latency(b, n - 1);
	flip_latency(b, all - 1);
	platform_free(traffic, bytes);
}
