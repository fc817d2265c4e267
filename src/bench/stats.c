/* SPDX-License-Identifier: GPL-2.0-only */
#include "stats.h"

void stats_reset(struct stats *s)
{
	memset(s, 0, sizeof(*s));
}

bool stats_add(struct stats *s, u64 value_milli, u8 mark)
{
	if (s->count == STATS_MAX_SAMPLES)
		return false;
	s->raw[s->count] = value_milli;
	s->mark[s->count++] = mark;
	return true;
}

/* Heap sort: no recursion, no worst case, no allocation. */
static void sift_down(u64 *v, unsigned root, unsigned count)
{
	for (;;) {
		unsigned child = 2 * root + 1;
		u64 swap;

		if (child >= count)
			return;
		if (child + 1 < count && v[child + 1] > v[child])
			child++;
		if (v[root] >= v[child])
			return;
		swap = v[root];
		v[root] = v[child];
		v[child] = swap;
		root = child;
	}
}

void stats_sort(u64 *values, unsigned count)
{
	for (unsigned i = count / 2; i-- > 0;)
		sift_down(values, i, count);
	for (unsigned end = count; end-- > 1;) {
		u64 top = values[0];

		values[0] = values[end];
		values[end] = top;
		sift_down(values, 0, end);
	}
}

u64 stats_percentile(const u64 *sorted, unsigned count, unsigned permille)
{
	unsigned rank = (unsigned)(((u64)count * permille + 999) / 1000);

	return sorted[rank ? min_of(rank, count) - 1 : 0];
}

u64 isqrt(u64 n)
{
	u64 root = 0;

	for (u64 bit = 1ull << 31; bit; bit >>= 1) {
		u64 next = root | bit;

		if (next * next <= n)
			root = next;
	}
	return root;
}

void stats_clock(struct stats *s, u32 permille)
{
	if (s->count)
		s->clock[s->count - 1] = (u16)min_of(permille, 65535u);
}

void stats_mark_clock(struct stats *s)
{
	u64 sorted[STATS_MAX_SAMPLES];
	unsigned n = 0;

	for (unsigned i = 0; i < s->count; i++) {
		if (s->clock[i])
			sorted[n++] = s->clock[i];
	}
	if (!n)
		return;
	stats_sort(sorted, n);
	s->clock_median = (u32)stats_percentile(sorted, n, 500);
	for (unsigned i = 0; i < s->count; i++) {
		if (s->clock[i] && apart(s->clock[i], s->clock_median) * 50 > s->clock_median)
			s->mark[i] |= STATS_MARK_FREQ;
	}
}

unsigned stats_unmarked(const struct stats *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->count; i++)
		n += !s->mark[i];
	return n;
}

void stats_forgive_neighbour(struct stats *s, unsigned least)
{
	s->shared = stats_unmarked(s) < least;
	for (unsigned i = 0; s->shared && i < s->count; i++)
		s->mark[i] &= (u8)~STATS_MARK_NEIGHBOUR;
}

/* Ranks n/2 ± 1.96 sqrt(n)/2 bound the median with 95 % confidence, whatever the distribution. */
static void median_interval(struct stats *s, const u64 *sorted)
{
	u64 half_width = (isqrt((u64)s->samples * 10000) * 98 + 9999) / 10000; /* 0.98 sqrt(n) */
	u64 middle = s->samples / 2;

	s->ci_low = sorted[middle > half_width ? middle - half_width : 0];
	s->ci_high = sorted[min_of(middle + half_width, (u64)s->samples - 1)];
}

/* Median of the undisturbed samples from..to in the order in which they were taken; 0: none. */
static u64 median_of(const struct stats *s, unsigned from, unsigned to, u64 *room)
{
	unsigned n = 0;

	for (unsigned i = from; i < to; i++) {
		if (!s->mark[i])
			room[n++] = s->raw[i];
	}
	stats_sort(room, n);
	return n ? stats_percentile(room, n, 500) : 0;
}

/*
 * The interval assumes that samples are independent. A clock that ramps or a neighbour that wakes
 * up moves the median within the run as it would between two runs, so that counts as well.
 */
static u64 noise_of(const struct stats *s, u64 *room)
{
	u64 first = median_of(s, 0, s->count / 2, room);
	u64 second = median_of(s, s->count / 2, s->count, room);
	u64 interval = (s->ci_high - s->ci_low + 1) / 2;

	if (!first || !second)
		return interval;
	return max_of(interval, apart(first, second));
}

void stats_finish(struct stats *s)
{
	u64 sorted[STATS_MAX_SAMPLES];

	s->samples = s->disturbed = 0;
	for (unsigned i = 0; i < s->count; i++) {
		if (s->mark[i])
			s->disturbed++;
		else
			sorted[s->samples++] = s->raw[i];
	}
	s->min = s->p50 = s->p95 = s->p99 = s->max = s->ci_low = s->ci_high = 0;
	s->spread = s->noise = 0;
	if (!s->samples)
		return;
	stats_sort(sorted, s->samples);
	s->min = sorted[0];
	s->max = sorted[s->samples - 1];
	s->p50 = stats_percentile(sorted, s->samples, 500);
	s->p95 = stats_percentile(sorted, s->samples, 950);
	s->p99 = stats_percentile(sorted, s->samples, 990);
	s->spread = stats_percentile(sorted, s->samples, 750) -
		    stats_percentile(sorted, s->samples, 250);
	median_interval(s, sorted);
	s->noise = noise_of(s, sorted);
}
