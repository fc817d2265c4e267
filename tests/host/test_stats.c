/* SPDX-License-Identifier: GPL-2.0-only */
/* Statistics: against values worked out by hand, and against a slow and obvious way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../src/bench/stats.h"

static struct stats s;

static void fill(const u64 *values, unsigned n)
{
	stats_reset(&s);
	for (unsigned i = 0; i < n; i++)
		assert_true(stats_add(&s, values[i], 0));
	stats_finish(&s);
}

static void by_hand(void **state)
{
	static const u64 v[] = {7, 1, 3, 9, 5};
	u64 many[101];

	(void)state;
	fill(v, 5);
	assert_int_equal(s.samples, 5);
	assert_int_equal(s.min, 1);
	assert_int_equal(s.p50, 5);
	assert_int_equal(s.max, 9);
	assert_int_equal(s.p95, 9);
	assert_int_equal(s.spread, 7 - 3);
	for (u64 i = 0; i < 101; i++)
		many[i] = (i * 37) % 101;
	fill(many, 101);
	assert_int_equal(s.p50, 50);
	assert_int_equal(s.p95, 95);
	assert_int_equal(s.p99, 99);
	fill(v, 5);
	/* First half 7, 1: nearest rank 1. Second half 3, 9, 5: 5. */
	assert_true(s.noise >= 4);
}

static void one_and_none(void **state)
{
	static const u64 v[] = {42};

	(void)state;
	fill(v, 1);
	assert_int_equal(s.p50, 42);
	assert_int_equal(s.ci_low, 42);
	assert_int_equal(s.ci_high, 42);
	assert_int_equal(s.noise, 0);
	stats_reset(&s);
	stats_add(&s, 5, STATS_MARK_SMI);
	stats_finish(&s);
	assert_int_equal(s.samples, 0);
	assert_int_equal(s.disturbed, 1);
	assert_int_equal(s.p50, 0);
}

/* A disturbed sample is kept and counted, and moves nothing. */
static void disturbed_stay_out(void **state)
{
	(void)state;
	stats_reset(&s);
	for (unsigned i = 0; i < 100; i++)
		stats_add(&s, i % 10 ? 1000 : 999999, i % 10 ? 0 : STATS_MARK_FREQ);
	stats_finish(&s);
	assert_int_equal(s.samples, 90);
	assert_int_equal(s.disturbed, 10);
	assert_int_equal(s.max, 1000);
	assert_int_equal(s.noise, 0);
	assert_int_equal(s.raw[0], 999999);
}

/* A neighbour's samples stay out while enough are left without them; else they are all there is, and
 * the summary says so. What else hit a sample is never forgiven. */
static void neighbour_is_forgiven_at_need(void **state)
{
	(void)state;
	for (unsigned least = 20; least <= 21; least++) {
		stats_reset(&s);
		for (unsigned i = 0; i < 100; i++)
			stats_add(&s, i < 20 ? 1000 : 2000, i < 20 ? 0 : STATS_MARK_NEIGHBOUR);
		stats_add(&s, 9000, STATS_MARK_NEIGHBOUR | STATS_MARK_SMI);
		assert_int_equal(stats_unmarked(&s), 20);
		stats_forgive_neighbour(&s, least);
		stats_finish(&s);
		assert_int_equal(s.shared, least == 21);
		assert_int_equal(s.samples, least == 21 ? 100 : 20);
		assert_int_equal(s.disturbed, least == 21 ? 1 : 81);
		assert_int_equal(s.p50, least == 21 ? 2000 : 1000);
		assert_int_equal(s.max, least == 21 ? 2000 : 1000);
	}
}

/* More than 2 % off the median clock, on either side, and not less. */
static void another_clock(void **state)
{
	static const struct {
		u32 clock;
		bool marked;
	} cases[] = {{1000, false}, {1019, false}, {981, false}, {1021, true}, {979, true}, {0, false}};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		stats_reset(&s);
		for (unsigned i = 0; i < 21; i++) {
			stats_add(&s, 1000, 0);
			stats_clock(&s, i == 20 ? cases[c].clock : 1000);
		}
		stats_mark_clock(&s);
		stats_finish(&s);
		assert_int_equal(s.clock_median, 1000);
		assert_int_equal(s.disturbed, cases[c].marked);
		assert_int_equal(s.mark[20], cases[c].marked ? STATS_MARK_FREQ : 0);
	}
}

/* Of an even number, nearest rank is the lower of the two in the middle. */
static void even_number(void **state)
{
	static const u64 v[] = {4, 1, 3, 2};

	(void)state;
	fill(v, 4);
	assert_int_equal(s.p50, 2);
}

static void full(void **state)
{
	(void)state;
	stats_reset(&s);
	for (unsigned i = 0; i < STATS_MAX_SAMPLES; i++)
		assert_true(stats_add(&s, i, 0));
	assert_false(stats_add(&s, 1, 0));
	stats_finish(&s);
	assert_int_equal(s.samples, STATS_MAX_SAMPLES);
}

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static void like_qsort(void **state)
{
	u64 mine[256], theirs[256];

	(void)state;
	srandom(1);
	for (unsigned round = 0; round < 500; round++) {
		unsigned n = 1 + random() % 256;

		for (unsigned i = 0; i < n; i++)
			mine[i] = theirs[i] = random() % (round % 2 ? 10 : 1000000);
		stats_sort(mine, n);
		qsort(theirs, n, sizeof(*theirs), by_value);
		assert_memory_equal(mine, theirs, n * sizeof(*mine));
		assert_int_equal(stats_percentile(mine, n, 0), mine[0]);
		assert_int_equal(stats_percentile(mine, n, 1000), mine[n - 1]);
	}
}

/* The interval holds the true median in about 95 of 100 runs: here at least in 92. */
static void interval_covers(void **state)
{
	unsigned covered = 0;

	(void)state;
	srandom(7);
	for (unsigned run = 0; run < 1000; run++) {
		stats_reset(&s);
		for (unsigned i = 0; i < 101; i++)
			stats_add(&s, (u64)random() % 2000001, 0);
		stats_finish(&s);
		assert_true(s.ci_low <= s.p50 && s.p50 <= s.ci_high);
		covered += s.ci_low <= 1000000 && 1000000 <= s.ci_high;
	}
	assert_in_range(covered, 920, 1000);
}

/* A clock that ramps in the middle of the run is noise, though each half is steady. */
static void drift_is_noise(void **state)
{
	(void)state;
	stats_reset(&s);
	for (unsigned i = 0; i < 200; i++)
		stats_add(&s, i < 100 ? 1000 : 1300, 0);
	stats_finish(&s);
	assert_int_equal(s.noise, 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_hand),	  cmocka_unit_test(one_and_none),
		cmocka_unit_test(disturbed_stay_out), cmocka_unit_test(full),
		cmocka_unit_test(neighbour_is_forgiven_at_need),
		cmocka_unit_test(like_qsort),	  cmocka_unit_test(interval_covers),
		cmocka_unit_test(drift_is_noise),	  cmocka_unit_test(another_clock),
		cmocka_unit_test(even_number),
	};

	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
