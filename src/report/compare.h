/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This run against an earlier one (baseline=): a table of old, new, change and noise, largest
 * change first, and a finding for each that is beyond its noise and the threshold. It distrusts
 * itself: another machine is refused, emulated times are not judged, a table that equals the old
 * one to the last digit is taken for a copy of it, and where the control bench, which takes no
 * lock and copies nothing, has moved, it says so instead of a verdict.
 */
#ifndef MCSPIN_REPORT_COMPARE_H
#define MCSPIN_REPORT_COMPARE_H

/* Emits the events "compare" (once), "compare_row" and "finding"; nothing without baseline=. What
 * is wrong with a baseline is a sentence in "compare", and the run goes on. Call it after the
 * benches. */
void compare_with_baseline(void);

#endif
