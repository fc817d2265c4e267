/* SPDX-License-Identifier: GPL-2.0-only */
#include "index.h"
#include "../run/run.h"

/* Digit by digit: squaring a number in 1 … 2 shows the next bit of its logarithm. */
u64 log2_fixed(u64 x)
{
	unsigned whole = 63 - (unsigned)__builtin_clzll(x);
	u64 log = (u64)whole << 16;
	u64 m = whole >= 31 ? x >> (whole - 31) : x << (31 - whole); /* 1 … 2 in 1/2^31 */

	for (unsigned bit = 1 << 15; bit; bit >>= 1) {
		m = m * m >> 31;
		if (m >> 32) {
			m >>= 1;
			log |= bit;
		}
	}
	return log;
}

/* The inverse by bisection: 64 steps of what is known to be right. */
u64 exp2_fixed(u64 x)
{
	u64 low = 1, high = 1ull << ((x >> 16) + 1);

	while (low + 1 < high) {
		u64 mid = low + (high - low) / 2;

		if (log2_fixed(mid) <= x)
			low = mid;
		else
			high = mid;
	}
	/* The nearer of the two, halfway seen by its square. */
	return log2_fixed(low) + log2_fixed(high) < 2 * x ? high : low;
}

u64 geometric_mean(const u32 *values, unsigned n)
{
	u64 sum = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!values[i])
			return 0;
		/* A thousand times larger, so that rounding does not show. */
		sum += log2_fixed((u64)values[i] * 1024);
	}
	return (exp2_fixed(sum / n) + 512) / 1024;
}

u64 handoff_multiple(u64 handoff, u64 line)
{
	return line ? handoff * 1000 / line : 0;
}

TEST(osq, index, "the geometric mean is one, and an impossible hand-off is seen", 0)
{
	static const u32 same[] = {1000, 1000, 1000}, mixed[] = {500, 2000}, three[] = {1, 10, 100};
	static const u32 published[] = {1041, 1052}, none[] = {1000, 0};

	check(t, geometric_mean(same, 3) == 1000, "of 1000, 1000, 1000: %llu",
	      (unsigned long long)geometric_mean(same, 3));
	check(t, geometric_mean(mixed, 2) == 1000, "of 500, 2000: %llu",
	      (unsigned long long)geometric_mean(mixed, 2));
	check(t, geometric_mean(three, 3) == 10, "of 1, 10, 100: %llu",
	      (unsigned long long)geometric_mean(three, 3));
	check(t, geometric_mean(published, 2) == 1046, "of 1041, 1052: %llu",
	      (unsigned long long)geometric_mean(published, 2));
	check(t, geometric_mean(none, 2) == 0, "with a 0 in it");
	check(t, log2_fixed(1) == 0 && log2_fixed(1ull << 40) == 40u << 16, "log2 of powers of two");
	check(t, handoff_multiple(90, 100) < 1000, "90 ticks for a line of 100 passed as possible");
	check(t, handoff_multiple(250, 100) == 2500, "250 : 100 is not 2.5");
}
