/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Real poison, consumed by the copies themselves. What the platform or the processor cannot do is
 * said before anything is injected; a check that is fatal all the same ends in the crash report.
 * In a rig (inject=1) the platform's registers are memory that the rig reads, and the rig raises
 * the check at the load that meets the poisoned address.
 */
#include "einj.h"
#include "mce_inject.h"
#include "../copy/copy_mc.h"
#include "../platform.h"
#include "../run/options.h"
#include "../run/run.h"

#define LEN    PAGE_SIZE
#define BAD_AT 1024 /* bytes before the poisoned line */

/* Why poison would not be survived here, or NULL. */
static const char *cannot_recover(void)
{
	struct mce_config cfg;
	u64 cap;

	mce_this_machine(&cfg, &cap);
	if (cfg.vendor == VENDOR_INTEL && !cfg.ser)
		return "no software error recovery (MCG_CAP.SER_P): poison would be fatal";
	if (cfg.vendor != VENDOR_INTEL && !cfg.succor)
		return "no SUCCOR: poison would be fatal";
	return NULL;
}

static bool open_platform(struct test_run *t, struct einj *e)
{
	const void *table;
	char why[160];
	size_t len;

	if (!options.einj) {
		check_skip(t, "einj=on was not said; it can bring a machine down");
		return false;
	}
	if (cannot_recover()) {
		check_skip(t, "%s", cannot_recover());
		return false;
	}
	table = platform_acpi_table("EINJ", &len);
	if (!table) {
		check_skip(t, "the firmware has no EINJ table");
		return false;
	}
	if (einj_open(e, table, len, &einj_io_live, why, sizeof(why)) ||
	    einj_can_poison(e, why, sizeof(why))) {
		check_skip(t, "%s", why);
		return false;
	}
	return true;
}

static void consume(struct test_run *t, const char *name, copy_fn fn, u8 *dst, u8 *src)
{
	u64 recovered = mce_last.recovered;
	unsigned long left;

	memset(dst, 0xa5, LEN);
	left = fn(dst, src, LEN);
	check(t, mce_last.recovered == recovered + 1, "%s met no machine check in poisoned memory",
	      name);
	check(t, left == LEN - BAD_AT, "%s left %lu bytes, not %u", name, left, LEN - BAD_AT);
	check(t, mce_last.worst.addr == (u64)src + BAD_AT, "%s: the bank says address 0x%lx", name,
	      (unsigned long)mce_last.worst.addr);
	for (unsigned i = 0; i < LEN; i++) {
		u8 want = i < BAD_AT ? (u8)i : 0xa5;

		if (dst[i] != want) {
			check(t, false, "%s: byte %u is wrong", name, i);
			return;
		}
	}
}

TEST(mce, einj, "memory poisoned by the platform is met by the copies and recovered exactly",
     NEED_RING0 | NEED_MCE)
{
	struct einj e;
	char why[160];
	u8 *src, *dst;

	if (!open_platform(t, &e))
		return;
	/* Boot services map memory one to one. */
	src = platform_alloc(LEN);
	dst = platform_alloc(LEN);
	if (!src || !dst) {
		check_error(t, "no memory");
		return;
	}
	platform_keep(src); /* whoever got this page next would read the poison */
	for (unsigned i = 0; i < LEN; i++)
		src[i] = (u8)i;
	for (unsigned i = 0; i < LEN; i += CACHE_LINE)
		__asm__ volatile("clflush (%0)" ::"r"(src + i) : "memory");
	if (!check(t, !einj_poison(&e, (u64)src + BAD_AT, why, sizeof(why)), "%s", why))
		return;
	if (options.inject)
		check(t, inject_at_load("copy_mc_fragile", (u64)copy_mc_fragile_read_words,
					BAD_AT / 8),
		      "no rig answered");
	consume(t, "copy_mc_fragile", copy_mc_fragile, dst, src);
	if (!options.inject)
		consume(t, "copy_mc_careful_sse2", copy_mc_careful_sse2, dst, src);
}
