/* SPDX-License-Identifier: GPL-2.0-only */
/* The clock and the sampling: against timers that are made up, and bodies whose cost is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "../../src/bench/bench.h"
#include "../../src/bench/tsc.h"
#include "../../src/platform.h"
#include "../../src/report/event.h"
#include "../../src/run/options.h"
#include "../../src/run/run.h"
#include "host.h"
#include <cmocka.h> /* last: it has a macro run_tests() */

/* -------------------------------------------------------------------- the clock */

#define TRUE_HZ 3000000000ull /* what the made-up timers say of this TSC, whatever it is */

static struct ref_timer timer;
static u64 divisor, born, jump_after, jump;

unsigned __wrap_platform_ref_timers(struct ref_timer *timers, unsigned max);
unsigned __wrap_platform_ref_timers(struct ref_timer *timers, unsigned max)
{
	(void)max;
	timers[0] = timer;
	return 1;
}

static u64 raw(void)
{
	return __builtin_ia32_rdtsc();
}

/* It begins 5 ms before it wraps, so it does within the first window. */
static u64 read_fake(const struct ref_timer *t)
{
	u64 value = (1ull << t->bits) - t->hz / 200 + (divisor ? (raw() - born) / divisor : 0);

	if (jump_after && !--jump_after)
		jump = t->hz / 250; /* 4 ms ahead, once */
	return (value + jump) & ((1ull << t->bits) - 1);
}

static const struct tsc_source *calibrate(u64 hz, u8 bits, u64 ticks)
{
	timer = (struct ref_timer){"made-up", hz, bits, read_fake, 0};
	divisor = ticks;
	born = raw();
	jump = 0;
	tsc_calibrate();
	for (unsigned i = 0; i < tsc_info.source_count; i++) {
		if (!strcmp(tsc_info.sources[i].name, "made-up"))
			return &tsc_info.sources[i];
	}
	fail_msg("the timer was not asked");
	return NULL;
}

static void near(u64 hz)
{
	assert_in_range(hz, TRUE_HZ - TRUE_HZ / 1000, TRUE_HZ + TRUE_HZ / 1000);
}

static void wraps(void **state)
{
	(void)state;
	for (u8 bits = 24; bits <= 32; bits += 8) {
		const struct tsc_source *s = calibrate(TRUE_HZ / 30, bits, 30);

		assert_true(s->credible);
		near(s->hz);
	}
}

/* One window of three in which the timer jumps, as when an SMI was taken between two reads. */
static void one_bad_window(void **state)
{
	(void)state;
	jump_after = 8;
	near(calibrate(TRUE_HZ / 30, 32, 30)->hz);
	assert_int_equal(jump_after, 0);
}

static void not_believed(void **state)
{
	(void)state;
	const struct tsc_source *s = calibrate(TRUE_HZ / 30, 32, 30 * 4); /* 12 GHz */

	assert_true(s->hz > 10000000000 && !s->credible);
	s = calibrate(TRUE_HZ / 3, 32, 1); /* 1 GHz that counts as fast as the TSC: 1 GHz, believed */
	assert_true(s->credible);
	s = calibrate(TRUE_HZ / 3 / 20, 24, 1); /* 50 MHz */
	assert_true(s->hz && s->hz < 100000000 && !s->credible);
}

/* A timer that stands, and one that crawls: neither may hold the run up. */
static void bounded(void **state)
{
	static const u64 divisors[] = {0, 300000000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(divisors); i++) {
		u64 start = raw();
		const struct tsc_source *s = calibrate(TRUE_HZ / 30, 32, divisors[i]);

		assert_int_equal(s->hz, 0);
		assert_false(s->credible);
		assert_in_range(raw() - start, 0, 2 * TRUE_HZ);
	}
}

/* -------------------------------------------------------------------- sampling */

static const struct bench bench = {.name = "made_up", .sentence = "x", .weight = 1};

static void spin(void *ctx, unsigned n)
{
	while (n--)
		tsc_spin(*(u64 *)ctx);
}

static void nothing(void *ctx, unsigned n)
{
	(void)ctx;
	(void)n;
}

static void prepare(void *ctx)
{
	(void)ctx;
}

/* n against 2n: what comes out is one operation. */
static void one_operation(void **state)
{
	u64 ticks = 3000;
	struct bench_case c[2] = {{.variant = "spin", .body = spin, .ctx = &ticks},
				  {.variant = "once", .body = spin, .prepare = prepare, .ctx = &ticks}};

	(void)state;
	bench_run(&bench, c, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(c[i].stats->samples > 2);
		assert_in_range(c[i].stats->p50, 2900000, 4200000);
	}
	bench_free(c, 2);
}

/* What an empty timed call costs is taken off. */
static void overhead_is_taken_off(void **state)
{
	struct bench_case c = {.variant = "nothing", .body = nothing, .prepare = prepare};
	u64 least = ~0ull;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		least = min_of(least, bench_time(nothing, NULL, 1));
	bench_run(&bench, &c, 1);
	assert_true(least > 0);
	assert_in_range(c.stats->p50, 0, least * 1000 * 2 / 3);
	bench_free(&c, 1);
}

static struct stats *samples(struct stats *s, const u64 *values, const u8 *marks, unsigned n)
{
	stats_reset(s);
	for (unsigned i = 0; i < n; i++)
		stats_add(s, values[i], marks[i]);
	stats_finish(s);
	return s;
}

/* Of pairs that were taken together, both of them undisturbed; a over b. */
static void ratio_of_pairs(void **state)
{
	static const u64 a[] = {3000, 3000, 999000, 3000, 3000}, b[] = {2000, 2000, 2000, 2000, 1};
	static const u8 a_marks[] = {0, 0, STATS_MARK_SMI, 0, 0}, b_marks[] = {0, 0, 0, 0, STATS_MARK_MCE};
	static struct stats x, y;
	struct bench_case one = {.stats = samples(&x, a, a_marks, 5)};
	struct bench_case two = {.stats = samples(&y, b, b_marks, 5)};
	struct ratio r = bench_ratio(&one, &two);

	(void)state;
	assert_int_equal(r.low, 15000);
	assert_int_equal(r.mid, 15000);
	assert_int_equal(r.high, 15000);
}

/* Two medians no further apart than what both may be off by: nothing is claimed. */
static void doubt_is_said(void **state)
{
	struct stats a = {.p50 = 1000, .noise = 30}, b = {.p50 = 1050, .noise = 20};
	struct bench_case x = {.stats = &a}, y = {.stats = &b};

	(void)state;
	assert_non_null(strstr(bench_doubt(&x, &y), "no claim"));
	assert_non_null(strstr(bench_doubt(&y, &x), "no claim"));
	b.noise = 19;
	assert_string_equal(bench_doubt(&x, &y), "");
	assert_string_equal(bench_doubt(&y, &x), "");
	options.icount = 7;
	b.noise = 1000;
	assert_string_equal(bench_doubt(&x, &y), "");
	options.icount = -1;
}

static void two_decimals(void **state)
{
	char text[RATIO_TEXT];

	(void)state;
	assert_string_equal(ratio_text(text, 10997, 50), "1.10");
	assert_string_equal(ratio_text(text, 10997, 0), "1.09");
	assert_string_equal(ratio_text(text, 9401, 99), "0.95");
	assert_string_equal(ratio_text(text, 9400, 99), "0.94");
	assert_string_equal(ratio_text(text, 20000, 99), "2.00");
}

/* A log that cannot grow ends, and the run is told: it has no holes. */
static void log_outgrows(void **state)
{
	char text[4000];
	size_t len, before;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_null(event_lost());
	for (unsigned i = 0; i < 50000 && !event_lost(); i++)
		event_warn("%s", text);
	assert_non_null(event_lost());
	event_log(&before);
	event_warn("short");
	event_log(&len);
	assert_int_equal(len, before);
	assert_int_equal(run_end(), RESULT_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wraps),	 cmocka_unit_test(one_bad_window),
		cmocka_unit_test(not_believed),	 cmocka_unit_test(bounded),
		cmocka_unit_test(one_operation), cmocka_unit_test(overhead_is_taken_off),
		cmocka_unit_test(doubt_is_said),
		cmocka_unit_test(ratio_of_pairs), cmocka_unit_test(two_decimals),
		cmocka_unit_test(log_outgrows), /* last: nothing is logged from then on */
	};

	options_init(&options);
	host_quiet = true;
	if (host_start(1, NULL))
		return 1;
	return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
