/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time. rdtsc_ordered() is itself an alternative site; the frequency comes from calibration
 * against timers that the platform offers, and is believed only when they agree.
 */
#ifndef MCSPIN_BENCH_TSC_H
#define MCSPIN_BENCH_TSC_H

#include "../types.h"

/* TSC, not before earlier instructions are done (site rdtsc_ordered). Any processor. */
u64 rdtsc_ordered(void);
/* Start / end of a timed region: lfence; rdtsc … rdtscp (or lfence; rdtsc); lfence. */
u64 tsc_begin(void);
u64 tsc_end(void);

/* One way to know the frequency, and what it said. */
struct tsc_source {
	const char *name;
	u64 hz;	       /* 0: the timer stood still */
	bool credible; /* 100 MHz to 10 GHz */
};

struct tsc_info {
	u64 hz;		    /* 0: unknown; ticks only */
	const char *source; /* "cpuid-15h", "acpi-pm", "hpet", "pit", … */
	u64 second_hz;	    /* the cross-check, 0 if there is none */
	const char *second_source;
	bool invariant;
	u64 skew; /* largest |difference| between processors, ticks */
	u64 skew_error; /* largest error of measuring one */
	bool skew_known;
	bool skewed; /* one differs by more than the error of measuring that one */
	struct tsc_source sources[8]; /* all that were asked, best first */
	unsigned source_count;
};
extern struct tsc_info tsc_info;

/* Calibrate; emits warnings only: sources that disagree by more than 0.1 %, incredible ones.
 * Bounded: 30 ms for each timer that works, at most a quarter of a second for one that does not. */
void tsc_calibrate(void);
/* Measure the skew between the control processor and each other one. */
void tsc_measure_skew(void);
/* One processor's difference was found to be `offset`, give or take `error`. */
void tsc_note_skew(s64 offset, u64 error);
/* May TSC values of two processors be subtracted? Only if each one's skew was measured, and is no
 * more than the error of measuring it, by which such a difference is uncertain. */
bool tsc_comparable(void);
/* Why not: a clause for whoever leaves a number out. */
#define TSC_INCOMPARABLE "the processors' TSCs differ by more than could be measured away"
/* The fields of the machine event about time. */
void tsc_tell(void);
/* Ticks in `us` microseconds; a 1 GHz guess while hz is unknown, for bounds only. */
u64 tsc_from_us(u64 us);
u64 tsc_to_ns(u64 ticks);
/* Spin until the TSC has advanced by `ticks` (bounded by an iteration count as well). */
void tsc_spin(u64 ticks);

#endif
