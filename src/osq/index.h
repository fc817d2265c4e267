/* SPDX-License-Identifier: GPL-2.0-only */
/* One number out of many, without floating point. */
#ifndef MCSPIN_OSQ_INDEX_H
#define MCSPIN_OSQ_INDEX_H

#include "../types.h"

/* log2(x) and 2^x in 1/65536; x > 0. Right to a unit of the last place or two. */
u64 log2_fixed(u64 x);
u64 exp2_fixed(u64 x); /* the whole part of 2^(x/65536), rounded */
/* Geometric mean of n > 0 values; 0 when one of them is. */
u64 geometric_mean(const u32 *values, unsigned n);
/* A hand-off as a multiple of the line transfer, in 1/1000; below 1000 is an error of the
 * measurement. 0 without a line transfer. */
u64 handoff_multiple(u64 handoff, u64 line);

#endif
