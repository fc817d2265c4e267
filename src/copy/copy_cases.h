/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One copy with everything that can go wrong laid out around it, and a plain oracle that says what
 * is right. Poison is stood in for by pages of the arena that are absent or read-only: the first
 * bad byte is the first byte of such a page, wherever the copy begins.
 */
#ifndef MCSPIN_COPY_COPY_CASES_H
#define MCSPIN_COPY_COPY_CASES_H

#include "copy_mc.h"

struct test_run;

/* What lies behind the good bytes of the source or of the destination. */
enum copy_edge {
	EDGE_NONE,	/* nothing: all of it is good */
	EDGE_ABSENT,	/* an absent page */
	EDGE_READ_ONLY, /* destinations only: a page that refuses the write */
};

#define COPY_CASE_MAX 8000 /* bytes */

struct copy_case {
	const struct copy_variant *v;
	unsigned len;
	enum copy_edge src_edge, dst_edge;
	/* With an edge: good bytes before it, 0 … COPY_CASE_MAX. Without: offset in a cache line. */
	unsigned src_at, dst_at;
};

/* Lay the arena out and fill the source; once before any case, on the control processor. 0, or
 * what the platform returned. */
int copy_cases_begin(void);
/* All pages writable again. */
void copy_cases_end(void);

/* What a copy must return: the bytes behind the nearest edge. */
unsigned copy_oracle(const struct copy_case *c);
/* Run it and compare residue, bytes, red zones, fault address and flags with the oracle. NULL: all
 * right; else what was wrong, one clause. Any processor, one at a time. */
const char *copy_case_run(const struct copy_case *c);
/* copy_case_run() as a check of `t`, its parameters in the sentence. */
bool copy_case_check(struct test_run *t, const struct copy_case *c);

/* Does this variant come back from a fault as the machine and the fragile key are now? */
bool copy_recovers(const struct copy_variant *v);
/* The key on or off; a failure is a check of `t`. */
void copy_set_fragile(struct test_run *t, bool on);

/* EFLAGS as they are. */
static inline u64 read_flags(void)
{
	u64 flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags)::"memory");
	return flags;
}

#endif
