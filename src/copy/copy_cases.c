/* SPDX-License-Identifier: GPL-2.0-only */
#include "copy_cases.h"
#include "../cpu/percpu.h"
#include "../platform.h"
#include "../run/run.h"
#include "../trap/ptrace.h"

/*
 * The window, in pages. Sources and destinations have neighbours of their own, so that a copy that
 * runs too far meets a hole. SOURCE_2 makes the second bad spot: good bytes between two holes.
 */
enum {
	SOURCE = 1,   /* two pages, then a hole */
	SOURCE_2 = 4, /* one page between two holes */
	KERNEL = 8,   /* two pages, a hole, two pages, a read-only page */
	USER = 16,    /* the same in user pages */
	LAYOUT_PAGES = 24,
};
static_assert(LAYOUT_PAGES <= ARENA_PAGES, "the window holds the layout");

#define RED  64	  /* bytes of red zone on either side of a destination */
#define FILL 0xa5 /* never a source byte */

#define SOURCE_BYTES (4 * PAGE_SIZE)
#define FILL_BYTES   (2 * PAGE_SIZE)

static u8 *pattern; /* what the source pages hold */
static u8 *fill;    /* FILL throughout */

static u8 source_byte(unsigned i)
{
	u8 b = (u8)(i * 7 + (i >> 8) * 13 + 1);

	return b == FILL ? 0x5a : b;
}

static int lay_destination(unsigned page, enum arena_rights rights)
{
	int err = platform_arena_protect(page, 2, rights);

	if (!err)
		err = platform_arena_protect(page + 3, 2, rights);
	return err ? err : platform_arena_protect(page + 5, 1, ARENA_READ_ONLY);
}

int copy_cases_begin(void)
{
	u8 *alias = platform_arena_alias();
	int err;

	if (!pattern)
		pattern = platform_alloc(SOURCE_BYTES + FILL_BYTES);
	if (!pattern)
		return -ENOMEM;
	fill = pattern + SOURCE_BYTES;
	memset(fill, FILL, FILL_BYTES);
	for (unsigned i = 0; i < SOURCE_BYTES; i++)
		pattern[i] = source_byte(i);
	memset(alias, FILL, LAYOUT_PAGES * PAGE_SIZE);
	memcpy(alias + SOURCE * PAGE_SIZE, pattern, SOURCE_BYTES);
	err = platform_arena_protect(0, LAYOUT_PAGES, ARENA_ABSENT);
	if (!err)
		err = platform_arena_protect(SOURCE, 2, ARENA_READ_ONLY);
	if (!err)
		err = platform_arena_protect(SOURCE_2, 1, ARENA_READ_ONLY);
	if (!err)
		err = lay_destination(KERNEL, ARENA_READ_WRITE);
	return err ? err : lay_destination(USER, ARENA_USER);
}

void copy_cases_end(void)
{
	platform_arena_protect(0, LAYOUT_PAGES, ARENA_READ_WRITE);
}

/* -------------------------------------------------------------------- the oracle */

unsigned copy_oracle(const struct copy_case *c)
{
	unsigned good = c->len;

	if (c->src_edge != EDGE_NONE)
		good = min_of(good, c->src_at);
	if (c->dst_edge != EDGE_NONE)
		good = min_of(good, c->dst_at);
	return c->len - good;
}

/* -------------------------------------------------------------------- one case */

/* Offsets into the window. */
static unsigned source_of(const struct copy_case *c)
{
	if (c->src_edge == EDGE_NONE)
		return SOURCE * PAGE_SIZE + c->src_at;
	return (SOURCE + 2) * PAGE_SIZE - c->src_at;
}

static unsigned destination_of(const struct copy_case *c)
{
	unsigned first = c->v->user ? USER : KERNEL;

	switch (c->dst_edge) {
	case EDGE_ABSENT:
		return (first + 2) * PAGE_SIZE - c->dst_at;
	case EDGE_READ_ONLY:
		return (first + 5) * PAGE_SIZE - c->dst_at;
	default:
		return first * PAGE_SIZE + RED + c->dst_at;
	}
}

/* The bytes of the destination: copied ones as the pattern, all others still the filling. */
static const char *judge_bytes(const u8 *dst, unsigned src, unsigned len, unsigned good)
{
	if (memcmp(dst, pattern + src - SOURCE * PAGE_SIZE, good))
		return "a copied byte is wrong";
	if (memcmp(dst + good, fill, len - good))
		return "a byte behind the residue was written";
	if (memcmp(dst - RED, fill, RED) || memcmp(dst + len, fill, RED))
		return "a byte outside the destination was written";
	return NULL;
}

/* Where the careful ones may fault: at the first bad byte of the source and nowhere behind it. */
static const char *judge_faults(const struct copy_case *c, u64 src, u64 faults)
{
	const struct percpu *cpu = this_cpu();
	bool source_first = c->src_edge != EDGE_NONE && c->src_at < c->len &&
			    (c->dst_edge == EDGE_NONE || c->src_at < c->dst_at);

	if (!copy_oracle(c))
		return faults ? "it faulted although every byte was good" : NULL;
	if (!faults)
		return "nothing faulted";
	if (!source_first || !c->v->careful || c->dst_edge != EDGE_NONE)
		return NULL;
	if (faults != 1)
		return "the bad source was touched more than once";
	return cpu->fixup_addr == src + c->src_at ? NULL : "the fault is not at the first bad byte";
}

const char *copy_case_run(const struct copy_case *c)
{
	unsigned src = source_of(c), dst = destination_of(c);
	u8 *alias = platform_arena_alias() + dst, *window = platform_arena();
	u64 faults = this_cpu()->fixup_count;
	unsigned left = copy_oracle(c);
	unsigned long got;
	const char *wrong;
	u64 flags;

	memset(alias - RED, FILL, c->len + 2 * RED);
	got = c->v->fn(window + dst, window + src, c->len);
	flags = read_flags();
	faults = this_cpu()->fixup_count - faults;
	if (got != left)
		return "the residue is wrong";
	wrong = judge_bytes(alias, src, c->len, c->len - left);
	if (!wrong)
		wrong = judge_faults(c, (u64)window + src, faults);
	if (!wrong && (flags & (X86_EFLAGS_AC | X86_EFLAGS_DF)))
		wrong = "AC or DF stayed set";
	return wrong;
}

bool copy_case_check(struct test_run *t, const struct copy_case *c)
{
	static const char *const edges[] = {"offset", "absent page after", "read-only page after"};
	const char *wrong = copy_case_run(c);

	return check(t, !wrong, "%s: %s (length %u, source %s %u, destination %s %u, processor %u)",
		     c->v->name, wrong ? wrong : "", c->len, edges[c->src_edge], c->src_at,
		     edges[c->dst_edge], c->dst_at, smp_processor_id());
}

/* -------------------------------------------------------------------- what recovers */

bool copy_recovers(const struct copy_variant *v)
{
	if (v->fn == copy_mc_to_kernel)
		return static_key_count(&copy_mc_fragile_key.key) > 0 ||
		       boot_cpu_has(X86_FEATURE_ERMS);
	return v->fault_safe;
}

void copy_set_fragile(struct test_run *t, bool on)
{
	int err;

	if ((static_key_count(&copy_mc_fragile_key.key) > 0) == on)
		return;
	err = on ? static_branch_enable(&copy_mc_fragile_key)
		 : static_branch_disable(&copy_mc_fragile_key);
	check(t, !err, "the fragile key could not be turned %s (error %d)", on ? "on" : "off", -err);
}
