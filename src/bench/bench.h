/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measuring: cases that belong to one comparison are timed in one run, interleaved, n against 2n
 * to cancel the overhead, after warm-up, many samples, each marked when an SMI, a machine check, a
 * frequency change or (for a guest or a process) a neighbour on the same core hit it. Statistics live in stats.h, and only there.
 */
#ifndef MCSPIN_BENCH_BENCH_H
#define MCSPIN_BENCH_BENCH_H

#include "../types.h"
#include "stats.h"

struct bench;

#define BENCH_MAX_CASES	 24
#define BENCH_MAX_PARAMS 6

struct bench_param {
	const char *key;
	const char *text; /* or NULL, then number */
	u64 number;
};

struct bench_case {
	const char *variant;
	/* Do the operation `n` times. Timed, interrupts off: at most a millisecond for n = 1. */
	void (*body)(void *ctx, unsigned n);
	/* Before each timed call, untimed: flush caches, reset state. May be NULL; then n is chosen
	 * by the harness, else n is 1 and the overhead of an empty case is subtracted. */
	void (*prepare)(void *ctx);
	void *ctx;
	struct bench_param params[BENCH_MAX_PARAMS]; /* ends at key NULL */
	struct stats *stats;			     /* out, until bench_free() */
};

/*
 * Time `count` cases against each other and emit one bench event for each (unit "ticks" per
 * operation; "instructions" under icount). cases[0] is the reference that ratios refer to.
 * Samples per case are chosen from the bench's share of the time budget: at least 11 that nothing
 * disturbed, or what three times the share allows, at least 5.
 */
void bench_run(const struct bench *b, struct bench_case *cases, unsigned count);
/* Give the samples back. */
void bench_free(struct bench_case *cases, unsigned count);

/* Emit values that a contest or another own loop has measured: `samples` in `unit`. */
void bench_emit(const struct bench *b, const char *variant, const struct bench_param *params,
		const char *unit, const u64 *samples, const u8 *disturbed, unsigned count);
/* The same for samples in 1/1000 of the unit. */
void bench_emit_milli(const struct bench *b, const char *variant, const struct bench_param *params,
		      const char *unit, const u64 *samples, const u8 *disturbed, unsigned count);

/* a / b of two medians with its spread, in 1/10000: the middle and the bounds of the ratio of the
 * interleaved pairs (5th to 95th percentile). */
struct ratio {
	s64 mid, low, high;
};
struct ratio bench_ratio(const struct bench_case *a, const struct bench_case *b);
/* What to add to a sentence about two medians: nothing, or that they are no further apart than the
 * noise, so that nothing is claimed. */
const char *bench_doubt(const struct bench_case *a, const struct bench_case *b);

/* A finding that rests on times. Under emulation, where time is no measure of speed, it keeps its
 * text, says so, and has no ratio that anybody could draw or quote. Instructions under icount are
 * exact and keep it. */
void bench_finding(const char *name, const char *text, s64 ratio, unsigned decimals,
		   const char *const *evidence);

/* One timed call of body(ctx, n), interrupts off, in ticks. */
u64 bench_time(void (*body)(void *ctx, unsigned n), void *ctx, unsigned n);
/* What the running measurement is counted in: "instructions" under icount, else "ticks". */
const char *bench_unit(void);
/* TSC ticks as the unit of bench_unit(). */
u64 bench_units(u64 ticks);

#endif
