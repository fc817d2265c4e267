/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How often a dispatcher copies, counted and not assumed. Debug registers watch one byte of the
 * source for reads and one of the destination for writes; each #DB tells which of them was hit.
 * A single copy reads and writes each once, whatever way it takes; the dispatcher that lost its
 * else does both twice. Head and tail may overlap rightly in a good copy, so the middle decides.
 *
 * The watched bytes lie at different offsets: under QEMU an iteration of REP MOVSB that touches
 * both reports only the first.
 */
#include "copy_cases.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"
#include "../trap/ptrace.h"
#include "../trap/trap.h"

#define LEN   4096
#define APART 160 /* bytes between the watched source byte and the destination one: not one line */

enum { READS, WRITES, WATCHES };

static u32 hits[WATCHES];

static bool count_hit(struct pt_regs *regs, u64 addr)
{
	u64 status = platform_debug_status();

	hits[READS] += status & 1;
	hits[WRITES] += status >> 1 & 1;
	return status & 3;
}

struct count_job {
	copy_fn fn;
	u8 *dst, *src;
	unsigned at; /* of the source byte; the destination one is at `dst_at` */
	unsigned dst_at;
	unsigned long left;
	int err;
	u32 reads, writes;
};

static void count_here(void *arg)
{
	struct count_job *j = arg;

	hits[READS] = hits[WRITES] = 0;
	trap_set_hook(X86_TRAP_DB, count_hit);
	j->err = platform_watchpoint(0, j->src + j->at, false);
	if (!j->err)
		j->err = platform_watchpoint(1, j->dst + j->dst_at, true);
	if (!j->err)
		j->left = j->fn(j->dst, j->src, LEN);
	platform_watchpoint(0, NULL, false);
	platform_watchpoint(1, NULL, true);
	trap_set_hook(X86_TRAP_DB, NULL);
	j->reads = hits[READS];
	j->writes = hits[WRITES];
}

/* Copies of the middle byte; 0 when the count could not be taken (said in `t`). Head and tail are
 * counted too and must not be missed. */
static u32 count_copies(struct test_run *t, const char *name, copy_fn fn, bool user, unsigned cpu)
{
	static const unsigned places[] = {0, LEN / 2 + 5, LEN - 1};
	u32 copies = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(places); i++) {
		unsigned at = places[i];
		struct count_job j = {.fn = fn, .src = platform_arena() + PAGE_SIZE, .at = at,
				      .dst = platform_arena() + (user ? 16 : 8) * PAGE_SIZE,
				      .dst_at = at < LEN / 2 ? at + APART : at - APART};
		int err = on_cpu(cpu, count_here, &j, 5000);

		if (!check(t, !err && !j.err, "%s: no watchpoints (error %d)", name, err + j.err))
			return 0;
		check(t, !j.left, "%s left %lu bytes", name, j.left);
		check(t, j.reads && j.writes, "%s: byte %u was read %u times, written %u times", name,
		      at, j.reads, j.writes);
		check(t, j.reads == j.writes, "%s read a byte %u times and wrote one %u times", name,
		      j.reads, j.writes);
		if (i == 1)
			copies = j.reads;
	}
	return copies;
}

static void tell_copies(const char *name, u32 copies)
{
	static const char *const evidence[] = {"test:copy_mc.copies_per_call",
					       "debug-register watchpoints on head, middle and tail",
					       "this exhibit turned the fragile key on for itself", NULL};
	char text[160];

	mc_snprintf(text, sizeof(text), "%s copies each byte %u.00 times a call", name, copies);
	event_finding("copies_per_call", text, true, (s64)copies * 100, 2, evidence);
}

static const struct counted {
	const char *name;
	copy_fn fn;
	bool user;
	u32 want; /* 0: whatever dispatcher= chose */
} counted[] = {
	{"copy_mc_to_user.regressed", copy_mc_to_user_regressed, true, 2},
	{"copy_mc_to_user.fixed", copy_mc_to_user_fixed, true, 1},
	{"copy_mc_to_user.shipped", copy_mc_to_user_shipped, true, 1},
	{"copy_mc_to_user", copy_mc_to_user, true, 0},
	{"copy_mc_to_kernel", copy_mc_to_kernel, false, 1},
};

static void count_all(struct test_run *t, unsigned cpu, bool tell)
{
	bool was = static_key_count(&copy_mc_fragile_key.key) > 0;

	if (!check(t, !copy_cases_begin(), "the arena could not be laid out"))
		return;
	copy_set_fragile(t, true);
	for (unsigned i = 0; i < ARRAY_SIZE(counted); i++) {
		const struct counted *d = &counted[i];
		u32 copies = count_copies(t, d->name, d->fn, d->user, cpu);

		if (copies && tell)
			tell_copies(d->name, copies);
		if (d->want)
			check(t, copies == d->want, "%s copies %u times, not %u", d->name, copies,
			      d->want);
	}
	copy_set_fragile(t, was);
	copy_cases_end();
}

TEST(copy_mc, copies_per_call,
     "the regressed dispatcher copies twice, the shipped and the fixed one once",
     NEED_RING0 | NEED_ARENA | NEED_PATCHED)
{
	count_all(t, smp_processor_id(), true);
	check_note(t, "the fragile key was on for this test; dispatcher=%s is the default",
		   options.dispatcher);
}

TEST(copy_mc, copies_per_call_ap, "the same on another processor",
     NEED_RING0 | NEED_ARENA | NEED_PATCHED | NEED_2_CPUS)
{
	count_all(t, another_cpu(), false);
}
