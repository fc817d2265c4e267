/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How fast the copies are. Variants that are compared run interleaved in one bench; hot repeats a
 * copy in the caches, cold flushes both buffers before each one. The fragile key is turned on for
 * the dispatchers' benches, whatever this platform would do with it: without the key no dispatcher
 * takes the ways that the regression was about. Buffers are kernel memory; STAC and CLAC run all
 * the same.
 */
#include "copy_cases.h"
#include "../bench/bench.h"
#include "../bench/tsc.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"

#define SLACK (2 * PAGE_SIZE) /* room for offsets behind a buffer's length */

struct copy_job {
	copy_fn fn;
	u8 *dst;
	const u8 *src;
	unsigned len;
};

static void do_copy(void *ctx, unsigned n)
{
	const struct copy_job *j = ctx;

	while (n--)
		j->fn(j->dst, j->src, j->len);
}

/* The plain one waits for the one before it: several times slower over 32 MiB. */
static void flush(const u8 *p, unsigned len)
{
	bool optimised = boot_cpu_has(X86_FEATURE_CLFLUSHOPT);

	for (unsigned at = 0; at < len + CACHE_LINE; at += CACHE_LINE) {
		if (optimised)
			__asm__ volatile("clflushopt (%0)" ::"r"(p + at) : "memory");
		else
			__asm__ volatile("clflush (%0)" ::"r"(p + at) : "memory");
	}
}

static void flush_both(void *ctx)
{
	const struct copy_job *j = ctx;

	flush(j->src, j->len);
	flush(j->dst, j->len);
	__asm__ volatile("mfence" ::: "memory");
}

/* The copy itself, untimed: what the one before it left in the caches is gone. */
static void copy_once(void *ctx)
{
	do_copy(ctx, 1);
}

/* -------------------------------------------------------------------- buffers */

/* From here on n against 2n would compare a copy after another variant's with one after its own. */
#define LARGE (128 << 10)

static struct copy_job jobs[BENCH_MAX_CASES];
static struct bench_case cases[BENCH_MAX_CASES];
static unsigned count;
static u8 *source, *target;
static unsigned room;
static bool vector, key_was;

/* The largest copy that this place allows: the budget on a machine is for boxes that have little. */
static unsigned largest(void)
{
	if (!platform_ring0())
		return 32 << 20;
	if (boot_cpu_data.emulated)
		return 2 << 20;
	return options.quick ? 2 << 20 : 8 << 20;
}

static void fill_words(u8 *p, unsigned len)
{
	for (unsigned at = 0; at < len; at += 8)
		*(u64 *)(p + at) = at * 0x9e3779b97f4a7c15ull;
}

static bool begin(const struct bench *b, unsigned len)
{
	room = len + SLACK;
	source = platform_alloc(room);
	target = platform_alloc(room);
	if (!source || !target) {
		run_worsen(RESULT_ERROR, "bench %s: no memory for two buffers of %u bytes", b->name,
			   room);
		return false;
	}
	/* Touch both: a page of zeros that a host shares would make every source hot. */
	fill_words(source, room);
	fill_words(target, room);
	key_was = static_key_count(&copy_mc_fragile_key.key) > 0;
	vector = platform_vector_begin() == 0;
	return true;
}

static void end(void)
{
	if (vector)
		platform_vector_end();
	if (source)
		platform_free(source, room);
	if (target)
		platform_free(target, room);
	source = target = NULL;
}

/* Several measurements share one bench's time. */
static struct bench part_of(const struct bench *b, unsigned parts)
{
	struct bench part = *b;

	part.weight = max_of(b->weight / parts, 1u);
	return part;
}

static struct bench_case *add(const char *variant, copy_fn fn, unsigned len, bool cold)
{
	struct copy_job *j = &jobs[count];
	struct bench_case *c = &cases[count++];

	*j = (struct copy_job){.fn = fn, .dst = target, .src = source, .len = len};
	*c = (struct bench_case){
		.variant = variant,
		.body = do_copy,
		.prepare = cold ? flush_both : len >= LARGE ? copy_once : NULL,
		.ctx = j,
		.params = {{.key = "length", .number = len},
			   {.key = "caches", .text = cold ? "cold" : "hot"}},
	};
	return c;
}

/* -------------------------------------------------------------------- speed over length */

static bool runs_here(const struct copy_variant *v)
{
	return copy_variant_usable(v) && (vector || v->feature == X86_FEATURE_ALWAYS);
}

/* Every routine at one length. copy_mc_careful is the same code as its widest form. */
static void over_variants(const struct bench *b, unsigned len, bool cold)
{
	count = 0;
	for (unsigned i = 0; i < copy_variant_count; i++) {
		const struct copy_variant *v = &copy_variants[i];

		if (!v->dispatcher && runs_here(v))
			add(v->name, v->fn, len, cold);
	}
	bench_run(b, cases, count);
	bench_free(cases, count);
}

static const unsigned lengths[] = {16,	    64,	      128,     256,	512,	 1024,	  4096, 16384,
				   65536,   262144,   1 << 20, 2 << 20, 8 << 20, 32 << 20};

/* A body of one operation must stay below a millisecond where time is emulated. */
static unsigned longest(void)
{
	return boot_cpu_data.emulated ? 65536 : largest();
}

static void over_lengths(const struct bench *b, bool cold)
{
	struct bench part = part_of(b, ARRAY_SIZE(lengths));

	if (begin(b, longest())) {
		for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
			bool few = options.quick || boot_cpu_data.emulated;

			if (lengths[i] <= longest() && (!few || i % 3 == 0))
				over_variants(&part, lengths[i], cold);
		}
	}
	end();
}

BENCH(copy_hot, "each copy over length, both buffers in the caches", 0, 24)
{
	over_lengths(b, false);
}

BENCH(copy_cold, "each copy over length, both buffers flushed before it", 0, 24)
{
	over_lengths(b, true);
}

/* -------------------------------------------------------------------- careful against the rest */

#define HOT_LEN	 4096
#define COLD_LEN (2 << 20)

struct extremes {
	s64 least_fragile, worst_string; /* in 1/10000: fragile : careful, careful : rep movsb */
	u64 best;			 /* of careful, in 1/1000 ticks */
};

static void compare_careful(const struct bench *b, unsigned offset, bool cold, unsigned len,
			    struct extremes *x)
{
	struct bench_case *fragile, *careful, *string;

	count = 0;
	careful = add("copy_mc_careful", copy_mc_careful, len, cold);
	fragile = add("copy_mc_fragile", copy_mc_fragile, len, cold);
	string = add("copy_mc_enhanced_fast_string", copy_mc_enhanced_fast_string, len, cold);
	for (unsigned i = 0; i < count; i++) {
		jobs[i].dst = target + offset;
		cases[i].params[2] = (struct bench_param){.key = "destination_offset",
							  .number = offset};
	}
	bench_run(b, cases, count);
	x->least_fragile = min_of(x->least_fragile, bench_ratio(fragile, careful).mid);
	x->worst_string = max_of(x->worst_string, bench_ratio(careful, string).mid);
	if (careful->stats && careful->stats->p50)
		x->best = min_of(x->best, careful->stats->p50);
	bench_free(cases, count);
}

static void tell_extremes(const char *name, const char *where, const struct extremes *x)
{
	const char *const evidence[] = {"bench:copy_offsets", where, NULL};
	char text[200], least[RATIO_TEXT], most[RATIO_TEXT];

	mc_snprintf(text, sizeof(text),
		    "%s: copy_mc_careful is at least %s times as fast as copy_mc_fragile and takes at "
		    "most %s times as long as rep movsb",
		    where, ratio_text(least, x->least_fragile, 0), ratio_text(most, x->worst_string, 99));
	bench_finding(name, text, x->least_fragile, 4, evidence);
}

/* So many operations, each waiting for the one before: one a core cycle on every processor. Not
 * additions of a constant: newer processors do several of those in a cycle, before executing. */
#define CHAIN 64

static void cycle_chain(void *ctx, unsigned n)
{
	u64 x = 1, y = 3;

	while (n--)
		__asm__ volatile(".rept 64\n\txorq %1, %0\n\t.endr" : "+r"(x) : "r"(y));
}

/* Ticks of 1000 core cycles: the least of several readings, n against 2n. */
static u64 ticks_of_cycles(void)
{
	const unsigned n = 1000;
	u64 least = ~0ull;

	for (unsigned i = 0; i < 50; i++) {
		u64 once = bench_time(cycle_chain, NULL, n), twice = bench_time(cycle_chain, NULL, 2 * n);

		if (twice > once)
			least = min_of(least, twice - once);
	}
	return least * 1000 / (n * CHAIN);
}

/* A processor stores one vector a cycle, and no copy can be faster. Widths: Intel since Skylake-SP
 * 64 bytes, with AVX2 32 (Haswell, Zen 2), before that 16 (Zen 1, Dhyana). */
static void tell_limit(u64 best_milli)
{
	static const char *const evidence[] = {
		"bench:copy_offsets", "a chain of dependent operations: core cycles a tick", NULL};
	u64 width = boot_cpu_has(X86_FEATURE_AVX512F) ? 64 : boot_cpu_has(X86_FEATURE_AVX2) ? 32 : 16;
	u64 cycles = ticks_of_cycles(), limit, got;
	char text[240];

	if (!cycles || cycles == ~0ull || !best_milli || best_milli == ~0ull)
		return;
	limit = width * 1000 * 100 / cycles; /* 1/100 bytes per tick */
	got = (u64)HOT_LEN * 1000 * 100 / best_milli;
	mc_snprintf(text, sizeof(text),
		    "this processor stores at most %lu bytes a core cycle, which are %lu.%02lu a tick; "
		    "copy_mc_careful reaches %lu.%02lu bytes a tick at 4 KiB hot",
		    (unsigned long)width, (unsigned long)(limit / 100), (unsigned long)(limit % 100),
		    (unsigned long)(got / 100), (unsigned long)(got % 100));
	bench_finding("copy_limit", text, (s64)(got * 10000 / limit), 4, evidence);
}

BENCH(copy_offsets,
      "copy_mc_careful, copy_mc_fragile and rep movsb: 4 KiB hot at each destination offset",
      NEED_REALTIME | NEED_PATCHED, 16)
{
	struct extremes hot = {INT64_MAX, 0, ~0ull}, cold = {INT64_MAX, 0, ~0ull};
	unsigned step = options.quick ? 7 : 1;
	struct bench part = part_of(b, 64 / step + 4);

	if (begin(b, COLD_LEN) && (vector || !boot_cpu_has(X86_FEATURE_AVX2))) {
		for (unsigned offset = 0; offset < 64; offset += step)
			compare_careful(&part, offset, false, HOT_LEN, &hot);
		part = part_of(b, 8);
		compare_careful(&part, 0, true, COLD_LEN, &cold);
		tell_extremes("careful_speed_hot", "4 KiB hot, every destination offset", &hot);
		tell_extremes("careful_speed_cold", "2 MiB cold", &cold);
		tell_limit(hot.best);
	}
	end();
}

/* -------------------------------------------------------------------- the first exhibit */

static void tell_ratio(const char *where, const struct bench_case *regressed,
		       const struct bench_case *fixed)
{
	struct ratio r = bench_ratio(regressed, fixed);
	const char *const evidence[] = {"bench:dispatcher_time", where,
					"this exhibit turned the fragile key on for itself", NULL};
	char text[220], mid[RATIO_TEXT], low[RATIO_TEXT], high[RATIO_TEXT];

	mc_snprintf(text, sizeof(text),
		    "%s: the regressed copy_mc_to_user takes %s times as long as the fixed one (%s to "
		    "%s)%s",
		    where, ratio_text(mid, r.mid, 50), ratio_text(low, r.low, 50),
		    ratio_text(high, r.high, 50), bench_doubt(regressed, fixed));
	bench_finding("dispatcher_time_ratio", text, r.mid, 4, evidence);
}

static bool key_on(const struct bench *b)
{
	if (!static_branch_enable(&copy_mc_fragile_key))
		return true;
	event_warn("bench %s: the fragile key could not be turned on", b->name);
	return false;
}

static void key_back(void)
{
	if (!key_was)
		static_branch_disable(&copy_mc_fragile_key);
}

static void dispatchers(const struct bench *b, unsigned len, bool cold, const char *where)
{
	struct bench_case *fixed, *regressed;

	count = 0;
	fixed = add("copy_mc_to_user.fixed", copy_mc_to_user_fixed, len, cold);
	regressed = add("copy_mc_to_user.regressed", copy_mc_to_user_regressed, len, cold);
	add("copy_mc_to_user.shipped", copy_mc_to_user_shipped, len, cold);
	/* What dispatcher= chose goes by the name that every run shares, for comparisons. */
	add("copy_mc_to_user", copy_mc_to_user, len, cold);
	for (unsigned i = 0; i < count; i++)
		cases[i].params[2] = (struct bench_param){.key = "fragile_key", .text = "on"};
	bench_run(b, cases, count);
	if (regressed->stats && fixed->stats)
		tell_ratio(where, regressed, fixed);
	bench_free(cases, count);
}

BENCH(dispatcher_time, "copy_mc_to_user regressed, fixed and shipped: 2 MiB cold and 4 KiB hot",
      NEED_PATCHED, 8)
{
	struct bench part = part_of(b, 2);

	if (begin(b, COLD_LEN) && key_on(b)) {
		dispatchers(&part, COLD_LEN, true, "2 MiB cold");
		dispatchers(&part, HOT_LEN, false, "4 KiB hot");
		key_back();
	}
	end();
}

/* -------------------------------------------------------------------- a recovered fault */

BENCH(recovered_fault, "a copy of 64 bytes that meets a hole after 32: the cost of recovery",
      NEED_ARENA, 3)
{
	static const unsigned which[] = {0, 2, 9}; /* fragile, fast string, careful */

	if (copy_cases_begin())
		return;
	vector = platform_vector_begin() == 0;
	count = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(which); i++) {
		const struct copy_variant *v = &copy_variants[which[i]];

		if (v->fn == copy_mc_careful && !vector && boot_cpu_has(X86_FEATURE_AVX2))
			continue;
		add(v->name, v->fn, 64, false);
		jobs[i].src = platform_arena() + 3 * PAGE_SIZE - 32;
		jobs[i].dst = platform_arena() + 8 * PAGE_SIZE;
		cases[i].params[1] = (struct bench_param){
			.key = "through", .text = platform_ring0() ? "exception" : "signal"};
	}
	bench_run(b, cases, count);
	bench_free(cases, count);
	if (vector)
		platform_vector_end();
	copy_cases_end();
}
