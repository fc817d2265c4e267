/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every copy and every dispatcher must return, with the faults that a machine allows: pages of
 * the arena that are absent or read-only stand in for poison, and come back through the same
 * exception table. The matrix of the kernel's old nfit test is here row by row; it called the
 * routines directly and so never saw the dispatcher that copied twice. Here both are called.
 *
 * A dispatcher takes other ways with the fragile key on; each test runs it both ways.
 */
#include "copy_cases.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../run/options.h"
#include "../run/run.h"
#include "../trap/extable.h"
#include "../trap/ptrace.h"
#include "../trap/trap.h"

/* Variants that run here, vector state on, each in turn; dispatchers once more with the key on. */
struct sweep {
	struct test_run *t;
	/* All cases of one variant. */
	void (*cases)(struct test_run *t, const struct copy_variant *v);
	const struct copy_variant *v;
	bool vector;
};

static void sweep_here(void *arg)
{
	struct sweep *s = arg;

	s->vector = platform_vector_begin() == 0;
	if (s->vector || s->v->feature == X86_FEATURE_ALWAYS)
		s->cases(s->t, s->v);
	if (s->vector)
		platform_vector_end();
}

/* One variant on one processor. The widest careful form may need vector state too. */
static void sweep_one(struct sweep *s, const struct copy_variant *v, unsigned cpu)
{
	int err;

	s->v = v;
	err = on_cpu(cpu, sweep_here, s, 20000);
	check(s->t, !err, "%s did not end on processor %u (error %d)", v->name, cpu, -err);
}

static void sweep(struct test_run *t, unsigned cpu,
		  void (*cases)(struct test_run *t, const struct copy_variant *v))
{
	struct sweep s = {.t = t, .cases = cases};
	bool was = static_key_count(&copy_mc_fragile_key.key) > 0;

	if (!check(t, !copy_cases_begin(), "the arena could not be laid out"))
		return;
	for (unsigned key = 0; key < 2; key++) {
		if (key && !run_text_patched)
			break; /* the key cannot be flipped; the plain ways have been seen */
		copy_set_fragile(t, key);
		for (unsigned i = 0; i < copy_variant_count; i++) {
			const struct copy_variant *v = &copy_variants[i];

			if (copy_variant_usable(v) && (!key || v->dispatcher))
				sweep_one(&s, v, cpu);
			platform_breathe(); /* under icount one variant can take seconds of its time */
		}
	}
	if (run_text_patched)
		copy_set_fragile(t, was);
	copy_cases_end();
}

/* -------------------------------------------------------------------- nothing goes wrong */

static void zero(struct test_run *t, const struct copy_variant *v)
{
	copy_case_check(t, &(struct copy_case){.v = v});
	if (copy_recovers(v)) /* both ends at a hole: nothing may be touched */
		copy_case_check(t, &(struct copy_case){.v = v, .src_edge = EDGE_ABSENT,
						       .dst_edge = EDGE_ABSENT});
}

TEST(copy_mc, zero_length, "a copy of nothing returns 0 and touches nothing", NEED_ARENA)
{
	sweep(t, smp_processor_id(), zero);
}

static void offsets(struct test_run *t, const struct copy_variant *v)
{
	unsigned step = platform_ring0() ? (options.quick ? 13 : 5) : 1;

	for (unsigned len = 0; len <= 512; len++) {
		for (unsigned i = len % step; i < 64; i += step) {
			struct copy_case c = {.v = v, .len = len, .src_at = i,
					      .dst_at = (i * 29 + len) % 64};

			copy_case_check(t, &c);
		}
	}
}

TEST(copy_mc, lengths_and_offsets,
     "lengths 0 to 512 at sampled offsets copy all bytes and leave red zones alone", NEED_ARENA)
{
	sweep(t, smp_processor_id(), offsets);
}

/* -------------------------------------------------------------------- the nfit matrix */

#define NFIT_LEN 512

/* tools/testing/nvdimm/test/nfit.c: none, source and destination injected at each of 512 places. */
static void nfit(struct test_run *t, const struct copy_variant *v)
{
	for (unsigned i = 0; i < NFIT_LEN; i++) {
		struct copy_case c = {.v = v, .len = NFIT_LEN};

		c.src_at = (64 - i % 64) % 64;
		copy_case_check(t, &c);
		if (!copy_recovers(v))
			continue;
		c.src_edge = EDGE_ABSENT;
		c.src_at = i;
		copy_case_check(t, &c);
		c.src_edge = EDGE_NONE;
		c.src_at = 0;
		c.dst_edge = EDGE_ABSENT;
		c.dst_at = i;
		copy_case_check(t, &c);
	}
}

TEST(copy_mc, nfit_matrix, "the 1536 cases of nfit_test for every routine and every dispatcher",
     NEED_ARENA)
{
	sweep(t, smp_processor_id(), nfit);
	check_note(t, "1536 cases for each of %u copies, dispatchers with the key off and on",
		   copy_variant_count);
}

TEST(copy_mc, nfit_matrix_ap, "the same on another processor", NEED_ARENA | NEED_2_CPUS)
{
	sweep(t, another_cpu(), nfit);
}

/* -------------------------------------------------------------------- edges */

static void edges(struct test_run *t, const struct copy_variant *v)
{
	unsigned step = platform_ring0() ? (options.quick ? 37 : 11) : 3;

	if (!copy_recovers(v))
		return;
	for (unsigned len = 1; len <= 200; len++) {
		for (unsigned at = len % step; at < len; at += step) {
			struct copy_case c = {.v = v, .len = len, .src_edge = EDGE_ABSENT,
					      .src_at = at, .dst_at = (at * 7 + len) % 64};

			copy_case_check(t, &c);
			c = (struct copy_case){.v = v, .len = len, .dst_edge = EDGE_READ_ONLY,
					       .dst_at = at, .src_at = (at * 5 + len) % 64};
			copy_case_check(t, &c);
			c = (struct copy_case){.v = v, .len = len, .src_edge = EDGE_ABSENT,
					       .src_at = at, .dst_edge = EDGE_ABSENT,
					       .dst_at = (at * 3 + len) % (len + 1)};
			copy_case_check(t, &c);
		}
	}
}

TEST(copy_mc, page_edges, "source, destination or both end at a page edge: exact residues",
     NEED_ARENA)
{
	sweep(t, smp_processor_id(), edges);
}

TEST(copy_mc, page_edges_ap, "the same on another processor", NEED_ARENA | NEED_2_CPUS)
{
	sweep(t, another_cpu(), edges);
}

/* The good line before poison: REP MOVS of Skylake-X reads the line behind its source. Here the
 * line behind is a hole, and the copy must be whole. */
static void guard_line(struct test_run *t, const struct copy_variant *v)
{
	for (unsigned len = 1; len <= 4096; len += len < 256 ? 1 : 61) {
		struct copy_case c = {.v = v, .len = len, .src_edge = EDGE_ABSENT, .src_at = len,
				      .dst_at = len % 64};

		copy_case_check(t, &c);
		c = (struct copy_case){.v = v, .len = len, .dst_edge = EDGE_READ_ONLY, .dst_at = len,
				       .src_at = len % 64};
		copy_case_check(t, &c);
	}
}

TEST(copy_mc, guard_line, "a source or destination that ends just before a hole is copied whole",
     NEED_ARENA)
{
	sweep(t, smp_processor_id(), guard_line);
}

/* Two bad spots: a hole, a good page, another hole. Only the first may be met, also by copies long
 * enough to reach the second. */
static void two_spots(struct test_run *t, const struct copy_variant *v)
{
	static const unsigned lens[] = {64, 200, 1000, 4096, 4160, 7000, COPY_CASE_MAX - 64};

	if (!copy_recovers(v))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		for (unsigned at = 0; at < min_of(lens[i], 160u); at += options.quick ? 31 : 7) {
			struct copy_case c = {.v = v, .len = lens[i], .src_edge = EDGE_ABSENT,
					      .src_at = at, .dst_at = at % 64};

			copy_case_check(t, &c);
			c.dst_edge = EDGE_ABSENT;
			c.dst_at = min_of(at + 64, lens[i]);
			copy_case_check(t, &c);
		}
	}
}

TEST(copy_mc, two_bad_spots, "with two bad spots the first decides, and is met once", NEED_ARENA)
{
	sweep(t, smp_processor_id(), two_spots);
}

/* Recovery is re-entered: the same bad byte, again and again. */
static void again(struct test_run *t, const struct copy_variant *v)
{
	struct copy_case c = {.v = v, .len = 300, .src_edge = EDGE_ABSENT, .src_at = 77};
	u64 before = this_cpu()->fixup_count;

	if (!copy_recovers(v))
		return;
	for (unsigned i = 0; i < 10; i++)
		copy_case_check(t, &c);
	check(t, this_cpu()->fixup_count >= before + 10, "%s: a fault was lost", v->name);
}

TEST(copy_mc, same_spot_ten_times, "the same bad spot ten times gives the same answer", NEED_ARENA)
{
	sweep(t, smp_processor_id(), again);
}

/* -------------------------------------------------------------------- what cannot recover */

static u64 plain_ip;

static bool note_and_leave(struct pt_regs *regs, u64 addr)
{
	plain_ip = regs->ip;
	/* Give the copy a readable source, and let it go on. */
	regs->si = (u64)platform_arena_alias();
	return true;
}

TEST(copy_mc, plain_does_not_recover, "the plain copy has no way back from a fault, as in Linux",
     NEED_ARENA)
{
	u8 *arena = platform_arena();

	if (!check(t, !copy_cases_begin(), "the arena could not be laid out"))
		return;
	plain_ip = 0;
	trap_set_hook(X86_TRAP_PF, note_and_leave);
	plain_memcpy(arena + 8 * PAGE_SIZE, arena, 16);
	trap_set_hook(X86_TRAP_PF, NULL);
	check(t, plain_ip, "a read of an absent page did not fault");
	check(t, !search_exception_tables(plain_ip), "plain_memcpy has an exception table entry");
	copy_cases_end();
}

/* -------------------------------------------------------------------- user pages and SMAP */

static void user_copies(struct test_run *t, const struct copy_variant *v)
{
	struct copy_case c = {.v = v, .len = 100};
	u8 *user = platform_arena() + 16 * PAGE_SIZE;
	u64 before = this_cpu()->fixup_count;
	unsigned long left;

	if (!v->user)
		return;
	copy_case_check(t, &c);
	/* The routine beneath, without STAC: nothing may be written. */
	left = copy_mc_enhanced_fast_string(user, platform_arena() + PAGE_SIZE, 16);
	check(t, left == 16 && this_cpu()->fixup_count == before + 1,
	      "a copy to a user page without STAC left %lu bytes of 16 and faulted %llu times", left,
	      (unsigned long long)(this_cpu()->fixup_count - before));
}

TEST(copy_mc, smap, "user pages need STAC: without it the copy faults, with it it is whole",
     NEED_ARENA | NEED_RING0 | NEED_PATCHED)
{
	if (!boot_cpu_has(X86_FEATURE_SMAP)) {
		check_skip(t, "this processor has no SMAP");
		return;
	}
	if (!platform_arena_has_user()) {
		check_skip(t, "this platform's arena has no user pages");
		return;
	}
	sweep(t, smp_processor_id(), user_copies);
}

/* -------------------------------------------------------------------- vector state */

#define CPUID_1_OSXSAVE (1u << 27) /* follows CR4.OSXSAVE of the asking processor */

struct vector_seen {
	bool before, during, after;
	int err;
};

static bool os_saves_vectors(void)
{
	struct cpuid_regs r;

	cpuid_raw(1, 0, &r);
	return r.ecx & CPUID_1_OSXSAVE;
}

static void see_vector_state(void *arg)
{
	struct vector_seen *v = arg;

	v->before = os_saves_vectors();
	v->err = platform_vector_begin();
	v->during = os_saves_vectors();
	if (!v->err)
		platform_vector_end();
	v->after = os_saves_vectors();
}

TEST(copy_mc, vector_state, "AVX state is on only between begin and end, on each processor", 0)
{
	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		struct vector_seen v = {0};

		if (!platform_cpu_usable(cpu))
			continue;
		if (!check(t, !on_cpu(cpu, see_vector_state, &v, 2000), "processor %u did not answer",
			   cpu))
			return;
		if (v.err) {
			check_skip(t, "no AVX state here");
			return;
		}
		check(t, v.during, "processor %u cannot use AVX between begin and end", cpu);
		check(t, v.before == v.after, "processor %u: CR4.OSXSAVE was %d and stays %d", cpu,
		      v.before, v.after);
	}
}
