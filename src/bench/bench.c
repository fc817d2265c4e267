/* SPDX-License-Identifier: GPL-2.0-only */
#include "bench.h"
#include "tsc.h"
#include "../cpu/features.h"
#include "../mce/mce.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"

/* Intel SDM vol. 4, table 2-2 and later; AMD has the latter two as well. */
#define MSR_SMI_COUNT	0x34
#define MSR_IA32_MPERF	0xe7
#define MSR_IA32_APERF	0xe8
#define MIN_ROUNDS    11
#define FEW_ROUNDS    5 /* where even MIN_ROUNDS would take PATIENCE times the budget */
#define PATIENCE      3
#define QUIET_US      2000
#define TARGET_US     3 /* of one timed call */
#define CALLS	      8 /* of n and of 2n operations make one sample: how a loop falls into step with
			 * the pipeline is drawn anew at each entry, and is worth a cycle */
#define ICOUNT_N      4
#define FULL_WIDTH_N  100 /* 6400 instructions, about a microsecond */

const char *bench_unit(void)
{
	return options.icount >= 0 ? "instructions" : "ticks";
}

u64 bench_units(u64 ticks)
{
	return options.icount >= 0 ? ticks >> options.icount : ticks;
}

u64 bench_time(void (*body)(void *ctx, unsigned n), void *ctx, unsigned n)
{
	unsigned long flags = platform_irq_save();
	u64 start = tsc_begin();
	u64 end;

	body(ctx, n);
	end = tsc_end();
	platform_irq_restore(flags);
	return end - start;
}

static void nothing(void *ctx, unsigned n)
{
}

/* -------------------------------------------------------------------- what disturbs */

/* What can hit a sample from outside, read before and after it. */
struct weather {
	u64 smi, aperf, mperf;
	u64 width; /* ticks of full_width(); 0: not asked */
};

static bool bare_metal(void)
{
	return platform_ring0() && boot_cpu_data.hv == HV_NONE;
}

/*
 * Independent additions, loads and stores, as many in a cycle as the core can. A guest or a process
 * cannot see who runs on the other thread of its core, but a neighbour there takes its share of
 * these. On bare metal the other threads are parked and APERF tells about the clock.
 */
static void full_width(void *ctx, unsigned n)
{
	u64 a = 0, b = 0, c, from = 0, to;

	while (n--)
		__asm__ volatile(".rept 16\n\tinc %0\n\tinc %1\n\tmov %4, %2\n\tmov %1, %3\n\t.endr"
				 : "+r"(a), "+r"(b), "=&r"(c), "=m"(to)
				 : "m"(from));
}

static u64 best_width = ~0ull; /* of this run */

static bool has_neighbours(void)
{
	return !bare_metal() && !boot_cpu_data.emulated && options.icount < 0;
}

static u64 look_at_width(void)
{
	u64 width = bench_time(full_width, NULL, FULL_WIDTH_N);

	best_width = min_of(best_width, width);
	return width;
}

/* Neighbours come and go within milliseconds: 20 of them hold a moment without one, if any do. */
static void find_best_width(void)
{
	u64 end = rdtsc_ordered() + tsc_from_us(20000);

	do
		look_at_width();
	while (rdtsc_ordered() < end);
}

static bool narrow(const struct weather *w)
{
	return w->width > best_width + best_width / 16;
}

static void look(struct weather *w)
{
	*w = (struct weather){0};
	if (has_neighbours())
		w->width = look_at_width();
	if (!bare_metal())
		return;
	if (boot_cpu_data.vendor == VENDOR_INTEL && platform_rdmsr(MSR_SMI_COUNT, &w->smi))
		w->smi = 0;
	if (!boot_cpu_has(X86_FEATURE_APERFMPERF))
		return;
	if (platform_rdmsr(MSR_IA32_MPERF, &w->mperf) || platform_rdmsr(MSR_IA32_APERF, &w->aperf))
		w->mperf = w->aperf = 0;
}

/* Core cycles for each 1000 reference cycles between two looks; 0: not known. */
static u32 clock_between(const struct weather *a, const struct weather *b)
{
	u64 reference = b->mperf - a->mperf;

	if (!a->mperf || !reference || b->aperf - a->aperf > ~0ull / 1000)
		return 0;
	return (u32)((b->aperf - a->aperf) * 1000 / reference);
}

/* Which banks hold something: one bit each. A new one means that a machine check was logged. */
static u64 banks_in_use(void)
{
	u64 cap, status, mask = 0;

	if (!platform_ring0() || !boot_cpu_has(X86_FEATURE_MCA) ||
	    platform_rdmsr(MSR_IA32_MCG_CAP, &cap))
		return 0;
	for (unsigned bank = 0; bank < min_of(MCG_BANKCNT(cap), 64u); bank++) {
		if (!platform_rdmsr(MSR_IA32_MCx_STATUS(bank), &status) && (status & MCI_STATUS_VAL))
			mask |= 1ull << bank;
	}
	return mask;
}

/* -------------------------------------------------------------------- sampling */

/* So many operations that one timed call takes about TARGET_US. */
static unsigned choose_n(const struct bench_case *c)
{
	u64 target = tsc_from_us(TARGET_US);
	unsigned n = 1;

	if (options.icount >= 0)
		return ICOUNT_N;
	while (n < 1u << 16 && bench_time(c->body, c->ctx, n) < target)
		n *= 2;
	return n;
}

struct session {
	u64 overhead; /* of an empty timed call, for cases with a prepare */
	unsigned n[BENCH_MAX_CASES];
};

/* One sample of one case, in 1/1000 of the unit. */
static u64 sample(const struct bench_case *c, const struct session *s, unsigned n, u8 *mark)
{
	unsigned calls = options.icount >= 0 || n == 1 ? 1 : CALLS;
	u64 once, twice, sum = 0;

	if (c->prepare) {
		c->prepare(c->ctx);
		once = bench_time(c->body, c->ctx, 1);
		return bench_units(once > s->overhead ? once - s->overhead : 0) * 1000;
	}
	/* Wide registers take some 10 us to wake up, slow until then. */
	c->body(c->ctx, options.icount >= 0 ? 1 : n * calls);
	for (unsigned i = 0; i < calls; i++) {
		once = bench_time(c->body, c->ctx, n);
		twice = bench_time(c->body, c->ctx, 2 * n);
		if (twice > once)
			sum += twice - once;
		else
			*mark |= STATS_MARK_HIT;
	}
	return bench_units(sum) * 1000 / (n * calls);
}

static void warm_up(struct bench_case *cases, unsigned count, struct session *s)
{
	u64 least = ~0ull;

	if (has_neighbours() && best_width == ~0ull)
		find_best_width();
	for (unsigned i = 0; i < 32; i++)
		least = min_of(least, bench_time(nothing, NULL, 1));
	s->overhead = least;
	for (unsigned i = 0; i < count; i++) {
		if (cases[i].prepare)
			cases[i].prepare(cases[i].ctx);
		cases[i].body(cases[i].ctx, 1);
		s->n[i] = cases[i].prepare ? 1 : choose_n(&cases[i]);
	}
}

static unsigned max_rounds(void)
{
	/* Emulated samples are for function and, under icount, all the same. */
	if (options.icount >= 0)
		return 3;
	return boot_cpu_data.emulated ? 5 : 201;
}

/* A sample with company is no good: wait a little for the end of it. */
static void look_for_quiet(struct weather *w)
{
	u64 start = rdtsc_ordered();

	do
		look(w);
	while (narrow(w) && rdtsc_ordered() - start < tsc_from_us(QUIET_US));
}

static void take_sample(struct bench_case *c, const struct session *s, unsigned n)
{
	struct weather before, after;
	u64 value;
	u8 mark = 0;

	look_for_quiet(&before);
	value = sample(c, s, n, &mark);
	look(&after);
	if (before.smi != after.smi)
		mark |= STATS_MARK_SMI;
	if (narrow(&before) || narrow(&after))
		mark |= STATS_MARK_NEIGHBOUR;
	stats_add(c->stats, value, mark);
	stats_clock(c->stats, clock_between(&before, &after));
}

/* A machine check is known for a whole round only: every sample of it is marked. */
static void mark_round(struct bench_case *cases, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct stats *stats = cases[i].stats;

		if (stats->count)
			stats->mark[stats->count - 1] |= STATS_MARK_MCE;
	}
}

static unsigned fewest_unmarked(const struct bench_case *cases, unsigned count)
{
	unsigned fewest = STATS_MAX_SAMPLES;

	for (unsigned i = 0; i < count; i++)
		fewest = min_of(fewest, stats_unmarked(cases[i].stats));
	return fewest;
}

/* With the budget spent MIN_ROUNDS are still waited for, also for as many that nothing disturbed,
 * but not at any price: a slow operation on a busy machine must not eat the other benches' time. */
static bool enough(const struct bench_case *cases, unsigned count, unsigned rounds, u64 spent,
		   u64 budget)
{
	if (rounds < min_of(max_rounds(), FEW_ROUNDS) || spent <= budget)
		return false;
	return spent / PATIENCE > budget || fewest_unmarked(cases, count) >= MIN_ROUNDS;
}

static void take_rounds(struct bench_case *cases, unsigned count, struct session *s, u64 budget)
{
	u64 start = rdtsc_ordered();
	u64 banks = banks_in_use();

	for (unsigned round = 0; round < max_rounds(); round++) {
		if (enough(cases, count, round, rdtsc_ordered() - start, budget))
			return;
		/* Rotate the order, so that no case always follows the same one. */
		for (unsigned i = 0; i < count; i++) {
			unsigned at = (i + round) % count;

			take_sample(&cases[at], s, s->n[at]);
		}
		if (banks_in_use() != banks) {
			banks = banks_in_use();
			mark_round(cases, count);
		}
	}
}

/* What a copy's chart is drawn from: so no view divides. */
static void emit_rate(const struct bench_param *params, const char *unit, const struct stats *s)
{
	for (unsigned i = 0; params && i < BENCH_MAX_PARAMS && params[i].key; i++) {
		if (params[i].text || !s->p50 || memcmp(params[i].key, "length", 7))
			continue;
		event_fixed(unit[0] == 'i' ? "bytes_per_instruction" : "bytes_per_tick",
			    (s64)(params[i].number * 1000000 / s->p50), 3);
	}
}

static void emit(const struct bench *b, const char *variant, const struct bench_param *params,
		 const char *unit, const struct stats *s)
{
	event_begin("bench");
	event_str("name", b->name);
	event_str("variant", variant);
	event_object("params");
	for (unsigned i = 0; params && i < BENCH_MAX_PARAMS && params[i].key; i++) {
		if (params[i].text)
			event_str(params[i].key, params[i].text);
		else
			event_u64(params[i].key, params[i].number);
	}
	event_close();
	event_str("unit", unit);
	event_u64("samples", s->samples);
	event_fixed("min", (s64)s->min, 3);
	event_fixed("p50", (s64)s->p50, 3);
	event_fixed("p95", (s64)s->p95, 3);
	event_fixed("p99", (s64)s->p99, 3);
	event_fixed("max", (s64)s->max, 3);
	event_fixed("spread", (s64)s->spread, 3);
	event_fixed("ci_low", (s64)s->ci_low, 3);
	event_fixed("ci_high", (s64)s->ci_high, 3);
	event_fixed("noise", (s64)s->noise, 3);
	event_u64("disturbed", s->disturbed);
	if (s->shared)
		event_bool("shared_core", true);
	if (s->clock_median) /* ticks become core cycles by this */
		event_fixed("core_per_reference", s->clock_median, 3);
	if (unit[0] == 't' || unit[0] == 'i')
		emit_rate(params, unit, s);
	event_end();
}

void bench_run(const struct bench *b, struct bench_case *cases, unsigned count)
{
	static struct session session;
	u64 budget = tsc_from_us((u64)run_bench_ms(b) * 1000);

	count = min_of(count, BENCH_MAX_CASES);
	for (unsigned i = 0; i < count; i++) {
		cases[i].stats = platform_alloc(sizeof(struct stats));
		if (!cases[i].stats) {
			run_worsen(RESULT_ERROR, "bench %s: no memory for its samples", b->name);
			bench_free(cases, i);
			return;
		}
		stats_reset(cases[i].stats);
	}
	warm_up(cases, count, &session);
	take_rounds(cases, count, &session, budget);
	for (unsigned i = 0; i < count; i++) {
		stats_mark_clock(cases[i].stats);
		stats_forgive_neighbour(cases[i].stats, min_of(MIN_ROUNDS, cases[i].stats->count));
		stats_finish(cases[i].stats);
		emit(b, cases[i].variant, cases[i].params, bench_unit(), cases[i].stats);
	}
}

void bench_free(struct bench_case *cases, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (cases[i].stats)
			platform_free(cases[i].stats, sizeof(struct stats));
		cases[i].stats = NULL;
	}
}

static void emit_samples(const struct bench *b, const char *variant,
			 const struct bench_param *params, const char *unit, const u64 *samples,
			 const u8 *disturbed, unsigned count, u64 milli)
{
	struct stats *s = platform_alloc(sizeof(*s));

	if (!s) {
		run_worsen(RESULT_ERROR, "bench %s: no memory for its samples", b->name);
		return;
	}
	for (unsigned i = 0; i < count; i++)
		stats_add(s, samples[i] * milli, disturbed ? disturbed[i] : 0);
	stats_finish(s);
	emit(b, variant, params, unit, s);
	platform_free(s, sizeof(*s));
}

void bench_emit(const struct bench *b, const char *variant, const struct bench_param *params,
		const char *unit, const u64 *samples, const u8 *disturbed, unsigned count)
{
	emit_samples(b, variant, params, unit, samples, disturbed, count, 1000);
}

void bench_emit_milli(const struct bench *b, const char *variant, const struct bench_param *params,
		      const char *unit, const u64 *samples, const u8 *disturbed, unsigned count)
{
	emit_samples(b, variant, params, unit, samples, disturbed, count, 1);
}

struct ratio bench_ratio(const struct bench_case *a, const struct bench_case *b)
{
	u64 ratios[STATS_MAX_SAMPLES];
	unsigned n = 0;

	if (!a->stats || !b->stats)
		return (struct ratio){0};
	for (unsigned i = 0; i < min_of(a->stats->count, b->stats->count); i++) {
		if (!a->stats->mark[i] && !b->stats->mark[i] && b->stats->raw[i])
			ratios[n++] = a->stats->raw[i] * 10000 / b->stats->raw[i];
	}
	if (!n)
		return (struct ratio){0};
	stats_sort(ratios, n);
	return (struct ratio){
		.mid = (s64)stats_percentile(ratios, n, 500),
		.low = (s64)stats_percentile(ratios, n, 50),
		.high = (s64)stats_percentile(ratios, n, 950),
	};
}

const char *bench_doubt(const struct bench_case *a, const struct bench_case *b)
{
	if (options.icount >= 0 ||
	    apart(a->stats->p50, b->stats->p50) > a->stats->noise + b->stats->noise)
		return "";
	return "; within the noise of this run: no claim";
}

void bench_finding(const char *name, const char *text, s64 ratio, unsigned decimals,
		   const char *const *evidence)
{
	bool no_time = boot_cpu_data.emulated && options.icount < 0;
	char buf[320];

	mc_snprintf(buf, sizeof(buf), "%s%s", no_time ? "emulation, no measure of speed: " : "", text);
	event_finding(name, buf, !no_time, ratio, decimals, evidence);
}

/* -------------------------------------------------------------------- the control */

/* A chain of dependent instructions: no memory, no lock, no copy. If this moves between two runs,
 * the runs cannot be compared. */
static void chain(void *ctx, unsigned n)
{
	u64 x = 1;

	while (n--) {
		__asm__ volatile(".rept 64\n\timul $3, %0, %0\n\t.endr" : "+r"(x));
	}
}

BENCH(control, "64 dependent multiplications: takes no lock and copies nothing", 0, 4)
{
	static struct bench_case cases[] = {{.variant = "imul64", .body = chain}};

	bench_run(b, cases, ARRAY_SIZE(cases));
	bench_free(cases, ARRAY_SIZE(cases));
}
