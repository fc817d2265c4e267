/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What only a process can test; the image does without. The oracle of the core's own tests,
 * exhaustively: natively a fault costs two or three microseconds, so millions of cases fit into
 * seconds. Every case is distinct by construction: a tuple (copy, key, length, source, destination,
 * kind and place of the fault) that no other loop visits. And that no load crosses a cache line.
 */
#include "../../src/copy/copy_cases.h"
#include "../../src/bench/tsc.h"
#include "../../src/platform.h"
#include "../../src/report/event.h"
#include "../../src/run/run.h"
#include "../../src/trap/ptrace.h"
#include "../../src/trap/trap.h"

#define MAX_LEN	  200 /* page-edge faults at every offset up to here */
#define EVERY_LEN 512

struct tally {
	struct test_run *t;
	u64 cases, wrong;
};

static void run_case(struct tally *y, const struct copy_case *c)
{
	y->cases++;
	if (copy_case_run(c)) {
		y->wrong++;
		copy_case_check(y->t, c); /* once more, for the sentence */
		check(y->t, false, "%s: a wrong case came right when repeated", c->v->name);
	}
}

/* No fault: every length, every source offset, every destination offset. */
static void whole(struct tally *y, const struct copy_variant *v)
{
	struct copy_case c = {.v = v};

	for (c.len = 0; c.len <= EVERY_LEN; c.len += c.len < MAX_LEN ? 1 : 3) {
		for (c.src_at = 0; c.src_at < 64; c.src_at++) {
			for (c.dst_at = 0; c.dst_at < 64; c.dst_at++)
				run_case(y, &c);
		}
	}
}

/* The source ends after each number of bytes; destinations sampled over all 64 offsets so that
 * each pair (length, place) meets eight of them. */
static void source_edges(struct tally *y, const struct copy_variant *v)
{
	struct copy_case c = {.v = v, .src_edge = EDGE_ABSENT};

	for (c.len = 1; c.len <= MAX_LEN; c.len++) {
		for (c.src_at = 0; c.src_at <= c.len; c.src_at++) {
			for (c.dst_at = (c.len + c.src_at) % 8; c.dst_at < 64; c.dst_at += 8)
				run_case(y, &c);
		}
	}
}

static void destination_edges(struct tally *y, const struct copy_variant *v)
{
	struct copy_case c = {.v = v};

	for (c.len = 1; c.len <= MAX_LEN; c.len++) {
		for (c.dst_at = 0; c.dst_at <= c.len; c.dst_at++) {
			for (c.src_at = (c.len + c.dst_at) % 8; c.src_at < 64; c.src_at += 8) {
				c.dst_edge = (c.src_at / 8) % 2 ? EDGE_READ_ONLY : EDGE_ABSENT;
				run_case(y, &c);
			}
		}
	}
}

/* Both sides bad, the nearer one decides. */
static void both_edges(struct tally *y, const struct copy_variant *v)
{
	struct copy_case c = {.v = v, .src_edge = EDGE_ABSENT, .dst_edge = EDGE_ABSENT};

	for (c.len = 1; c.len <= MAX_LEN; c.len += 9) {
		for (c.src_at = 0; c.src_at < c.len; c.src_at++) {
			for (c.dst_at = 0; c.dst_at < c.len; c.dst_at++)
				run_case(y, &c);
		}
	}
}

/* Long copies, their loops and, at the largest, what comes behind them. */
static void long_edges(struct tally *y, const struct copy_variant *v)
{
	struct copy_case c = {.v = v};

	for (c.len = 513; c.len < COPY_CASE_MAX - 64; c.len += 331) {
		for (unsigned at = 0; at < c.len; at += 17) {
			c.src_edge = EDGE_ABSENT;
			c.dst_edge = EDGE_NONE;
			c.src_at = at;
			c.dst_at = at % 64;
			run_case(y, &c);
			c.src_edge = EDGE_NONE;
			c.dst_edge = EDGE_READ_ONLY;
			c.src_at = at % 61;
			c.dst_at = at;
			run_case(y, &c);
		}
	}
}

static void one_variant(struct tally *y, const struct copy_variant *v)
{
	u64 before = y->cases, start = rdtsc_ordered();

	whole(y, v);
	if (copy_recovers(v)) {
		source_edges(y, v);
		destination_edges(y, v);
		both_edges(y, v);
		long_edges(y, v);
	}
	ktap_line("    # %s%s: %llu cases in %llu ms", v->name,
		  static_key_count(&copy_mc_fragile_key.key) > 0 ? ", key on" : "",
		  (unsigned long long)(y->cases - before),
		  (unsigned long long)(tsc_to_ns(rdtsc_ordered() - start) / 1000000));
}

TEST(copy_mc, exhaustive, "millions of distinct cases, each exactly as the oracle says",
     NEED_HOST | NEED_ARENA | NEED_LONG | NEED_PATCHED)
{
	struct tally y = {.t = t};

	if (!check(t, !copy_cases_begin(), "the arena could not be laid out"))
		return;
	for (unsigned key = 0; key < 2; key++) {
		copy_set_fragile(t, key);
		for (unsigned i = 0; i < copy_variant_count; i++) {
			if (!copy_variant_usable(&copy_variants[i]))
				continue;
			if (!key || copy_variants[i].dispatcher)
				one_variant(&y, &copy_variants[i]);
			platform_breathe();
		}
	}
	copy_set_fragile(t, false);
	copy_cases_end();
	check(t, y.cases >= 5000000, "only %llu cases", (unsigned long long)y.cases);
	check_note(t, "%llu distinct cases, %llu wrong", (unsigned long long)y.cases,
		   (unsigned long long)y.wrong);
}

/* -------------------------------------------------------------------- no load crosses a line */

/*
 * EFLAGS.AC in ring 3 makes every access that is not aligned to its own size fault (the vector
 * loads check by themselves). With source and destination alike in a line every store is aligned as
 * well, so a copy that comes through has made aligned accesses only, and an aligned access of at
 * most 64 bytes crosses no line. Which addresses are loaded does not depend on the destination.
 */
static unsigned long copy_with_ac(copy_fn fn, void *dst, const void *src, unsigned len)
{
	unsigned long left;

	__asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" ::"i"(X86_EFLAGS_AC) : "memory", "cc");
	left = fn(dst, src, len);
	__asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" ::"i"(~(u64)X86_EFLAGS_AC)
			 : "memory", "cc");
	return left;
}

static u64 misaligned;

static bool count_misaligned(struct pt_regs *regs, u64 addr)
{
	misaligned++;
	regs->flags &= ~(u64)X86_EFLAGS_AC;
	return true;
}

static void aligned_only(struct test_run *t, const struct copy_variant *v)
{
	u8 *src = platform_arena() + PAGE_SIZE, *dst = platform_arena() + 8 * PAGE_SIZE;

	if (!v->careful)
		return;
	for (unsigned len = 0; len < 600; len++) {
		for (unsigned at = 0; at < 64; at++) {
			unsigned long left = copy_with_ac(v->fn, dst + at, src + at, len);

			if (misaligned || left)
				check(t, false, "%s: length %u at offset %u made a misaligned access",
				      v->name, len, at);
		}
	}
}

TEST(copy_mc, no_line_crossed, "no load of a careful copy crosses a cache line",
     NEED_HOST | NEED_ARENA)
{
	volatile u32 words[2] = {0};
	u32 value;

	/* First that the trap works at all: a misaligned word must be caught. */
	misaligned = 0;
	trap_set_hook(X86_TRAP_AC, count_misaligned);
	__asm__ volatile("pushfq\n\torq %2, (%%rsp)\n\tpopfq\n\tmovl 1(%1), %0\n\t"
			 "pushfq\n\tandq %3, (%%rsp)\n\tpopfq"
			 : "=&r"(value)
			 : "r"(words), "i"(X86_EFLAGS_AC), "i"(~(u64)X86_EFLAGS_AC)
			 : "memory", "cc");
	if (!misaligned) {
		trap_set_hook(X86_TRAP_AC, NULL);
		check_skip(t, "this host does not trap misaligned accesses");
		return;
	}
	misaligned = 0;
	if (check(t, !copy_cases_begin(), "the arena could not be laid out")) {
		for (unsigned i = 0; i < copy_variant_count; i++) {
			if (copy_variant_usable(&copy_variants[i]))
				aligned_only(t, &copy_variants[i]);
		}
		copy_cases_end();
	}
	trap_set_hook(X86_TRAP_AC, NULL);
	check(t, !misaligned, "%llu misaligned accesses", (unsigned long long)misaligned);
}
