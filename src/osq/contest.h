/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contests: N processors at one lock for a fixed window, started through a barrier, each counting
 * for itself. What the lock guards is a plain counter and the number of the holder, so a lock that
 * does not exclude shows at once. Every wait has a bound: waiters of osq forms are called out of the
 * queue when a contest does not end, others are given up by the platform. No verdict rests on how
 * long a processor took.
 */
#ifndef MCSPIN_OSQ_CONTEST_H
#define MCSPIN_OSQ_CONTEST_H

#include "../cpu/pmu.h"
#include "osq.h"

#define CONTEST_SAMPLES 64 /* hand-offs kept by each processor, a power of two */

struct contest {
	const struct lock_variant *v;
	const u16 *cpus; /* who takes part; the caller's own number may be among them */
	unsigned n;
	u64 window;	 /* ticks */
	u64 hold, gap;	 /* ticks inside and outside the lock, each turn */
	u32 leave;	 /* in one of `leave` turns the holder tells another to leave; 0: never */
	bool stamps;	 /* measure hand-offs and waits */
	/*
	 * Look at the order, in a contest that is not timed; queue locks only. Each holder notes who
	 * is the last in the queue; whoever asks for the lock after that note must be served after
	 * the one noted, unless that one left. So `overtaken` above 0 proves that the lock is not
	 * first in, first out; `ordered` counts the services that were judged. Two that arrive
	 * within one hold are not told apart.
	 */
	bool order;
	/* Count the lines that the processors fetch; NULL, or counters that are not missing. */
	const struct pmu *pmu;

	/* Results. */
	u64 acquired, aborted;
	u64 least, most;    /* acquisitions of one processor */
	u64 deviation;	    /* standard deviation of them over their mean, in 1/1000 */
	u64 overtaken, ordered;
	u64 lines[PMU_EVENTS];
	unsigned uncounted; /* processors whose counters refused */
	/* Where the processors' TSCs cannot be compared there are no hand-offs, `together` is 0, and
	 * `ticks` is the longest time of one processor. */
	bool comparable;
	u64 together;	    /* share of the window with all present, in 1/1000 */
	u64 ticks;	    /* from the first start to the last end */
	u64 longest_wait;   /* ticks in one lock(), with `stamps` */
	u64 longest_turn;   /* ticks from one turn's begin to the next: a processor that was away */
	u64 intruders;	    /* somebody else was inside */
	s64 miscounted;	    /* counter against the sum of acquisitions */
	unsigned late;	    /* did not come to the start in time: nothing was contested */
	unsigned absent;    /* did not come back */
	unsigned lost;	    /* alone in the end, and refused the lock: a lost hand-off */
	bool left_dirty;    /* tail or a node not idle afterwards */
	u64 *handoff;	    /* `handoffs` samples of ticks, in contest_memory */
	unsigned handoffs;
};

/* Memory for all processors, once. -ENOMEM. */
int contest_init(void);
/* Run one. 0, or -ENODEV when not all could be started. */
int contest_run(struct contest *c);
/* Where a contestant's dice begin: from seed= and its place. */
u32 contest_dice(unsigned place);
/* No violation of any kind: else `why` gets a clause. */
bool contest_clean(const struct contest *c, char *why, size_t len);
/* Ticks that a contestant may wait in one lock() before it counts as starved: n times the hold, and
 * 10 ms on a bare machine, for its SMIs, 1 s elsewhere. 0 where that is not judged: under emulation,
 * with more processors than cores, and for locks that promise no order. */
u64 contest_wait_bound(const struct contest *c);
/* The first `want` usable processors, beginning with the caller's; returns how many. */
unsigned contest_cpus(u16 *cpus, unsigned want);

/*
 * Half a round trip of one line between two processors, in ticks: a ping-pong through the same
 * polling loop as the locks', no PAUSE in it. `samples` of `count` readings; returns how many were
 * taken. The physical limit of a hand-off.
 */
unsigned line_transfer(unsigned a, unsigned b, u64 *samples, unsigned count);

#endif
