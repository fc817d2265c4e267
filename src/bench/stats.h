/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics over samples: integers in, integers out, so that the image, the host and the tests
 * compute the same bits. Unit-tested in one place; nothing else in mcspin takes a median.
 */
#ifndef MCSPIN_BENCH_STATS_H
#define MCSPIN_BENCH_STATS_H

#include "../types.h"

#define STATS_MAX_SAMPLES 256

/* Values are in 1/1000 of the unit, so that a per-operation time keeps three decimals. */
struct stats {
	unsigned samples;   /* undisturbed ones, on which the rest stands */
	unsigned disturbed; /* kept and counted, not in the median */
	bool shared;	    /* too few samples had the core alone: those with a neighbour count */
	u64 min, p50, p95, p99, max;
	u64 ci_low, ci_high; /* 95 % confidence interval of the median, by order statistics */
	u64 spread;	     /* p75 - p25 */
	u64 noise;	     /* the smallest difference of two medians worth a claim: half of the
			      * interval, or how far the median drifted between the halves */
	u64 raw[STATS_MAX_SAMPLES];
	u8 mark[STATS_MAX_SAMPLES]; /* not 0: disturbed, why */
	u16 clock[STATS_MAX_SAMPLES]; /* core clock over reference clock, in 1/1000; 0: not known */
	u32 clock_median;
	unsigned count;		    /* of raw */
};

#define STATS_MARK_SMI	1
#define STATS_MARK_MCE	2
#define STATS_MARK_FREQ 4
#define STATS_MARK_HIT	8 /* 2n operations took no longer than n: something hit the n */
#define STATS_MARK_NEIGHBOUR 16 /* the core did less than it can: somebody shared it */

void stats_reset(struct stats *s);
/* Beyond STATS_MAX_SAMPLES a sample is dropped; returns false then. */
bool stats_add(struct stats *s, u64 value_milli, u8 mark);
/* The clock ratio of the sample added last. */
void stats_clock(struct stats *s, u32 permille);
/* Mark samples whose clock ratio is more than 2 % off the median one. Before stats_finish(). */
void stats_mark_clock(struct stats *s);
/* With fewer than `least` unmarked samples, let a neighbour pass as the normal state of this core.
 * Before stats_finish(). */
void stats_forgive_neighbour(struct stats *s, unsigned least);
unsigned stats_unmarked(const struct stats *s);
/* Fill the summary from raw. With no undisturbed sample all values are 0 and samples is 0. */
void stats_finish(struct stats *s);
/* Sorts in place; deterministic. */
void stats_sort(u64 *values, unsigned count);
/* Integer square root. */
u64 isqrt(u64 n);
/* Nearest-rank percentile (0 … 1000 per mille) of sorted values. count > 0. */
u64 stats_percentile(const u64 *sorted, unsigned count, unsigned permille);

#endif
