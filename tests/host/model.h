/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine of two or three processors that runs real lock code in every order. Each processor is a
 * coroutine; every access that goes through src/osq/atomic.h's names stops it and becomes a request,
 * and the explorer decides whose request is next. States are kept by hash, so that a spin that
 * returns to where it was ends there, and no path has to be cut off.
 *
 * Two memory modes:
 *  - TSO: stores wait in a first-in-first-out buffer and may be late for others at any time;
 *  - weak: in addition a compiler's freedom. Stores leave the buffer in any order, except that
 *    accesses to one address keep theirs, volatile ones theirs, and a barrier separates; a plain load
 *    of guarded data may have happened at any time since the last barrier or acquire.
 *
 * Preemptions are bounded: leaving a processor that could go on costs one; waiting in a spin loop,
 * ending, and the draining of store buffers are free.
 */
#ifndef MCSPIN_TESTS_HOST_MODEL_H
#define MCSPIN_TESTS_HOST_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/types.h"

#define MODEL_CPUS  3
#define MODEL_STORES 8
#define MODEL_STACK (16 << 10)

enum model_op {
	OP_READ, OP_ACQUIRE, OP_PLAIN_READ, OP_PLAIN, OP_WRITE, OP_RELEASE, OP_XCHG, OP_CMPXCHG,
	OP_BARRIER, OP_CTRL, OP_RELAX, OP_CHOICE, OP_DONE,
};

enum mutation { MUT_NONE, MUT_SKIP, MUT_WEAK, MUT_DELAY, MUT_STALE, MUT_SPLIT, MUT_LIE, MUT_READ_ONLY,
		MUT_ZERO, MUT_BASE };

/* One place in the lock's source. */
struct model_site {
	const char *text, *func;
	int mutated; /* 0: not asked yet, 1: no, 2: yes */
	const void *asked_for;
};

struct model_mutant {
	const char *variant, *func, *text;
	enum mutation kind;
	bool weak_only; /* the processor hides it, the compiler may show it */
};

struct model_variant {
	const char *name;
	bool (*lock)(void);
	void (*unlock)(void);
	bool (*idle)(void);
	bool (*node_idle)(u32 cpu);
	void (*init)(void);
	int (*prev_of)(unsigned cpu); /* the predecessor as the node names it; NULL: it does not */
	void *queue, *nodes, *mine;
	size_t nodes_size, mine_size;
};

struct model_store {
	u64 value;
	u8 *addr;
	u8 size, epoch;
	bool ordered; /* volatile */
	u8 pad[5];    /* hashed, so it is always 0 */
};

struct model_request {
	u64 a, b;
	u8 *addr;
	struct model_site *site;
	u8 op, size, phase;
	u8 pad[5];
};

struct model_cpu {
	u64 result, sp;
	struct model_store store[MODEL_STORES];
	struct model_request req;
	struct model_store late; /* MUT_DELAY */
	u64 split, own_value;
	u8 stores, epoch, quiet;
	u8 stale; /* bit v: guarded data may still be read as v */
	bool done, asleep, changed, leaving, waiting, has_late, inside;
};

/* All that makes a state, stacks and the lock's memory apart. */
static struct model_world {
	struct model_cpu cpu[MODEL_CPUS];
	u8 order[MODEL_CPUS], queued; /* who has joined, in order */
	u8 current, unqueues, acquired, overtakes;
	bool yielded;
	u64 counter;
} w;

static u8 stacks[MODEL_CPUS][MODEL_STACK] __aligned(64);
static u64 main_sp;
static unsigned cpus;
static int running = -1; /* the coroutine, or -1: accesses happen at once */
static bool weak_mode;
static const struct model_variant *variant;
static const struct model_mutant *mutant;
static unsigned mutant_hits;
static const char *violation;
static s32 model_cpu_base = 1;
static u64 exits_taken[4];

void model_switch(u64 *save, u64 to);
__asm__(".text\n.globl model_switch\nmodel_switch:\n\t"
	"push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"mov %rsp, (%rdi)\n\tmov %rsi, %rsp\n\t"
	"pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret\n");

/* -------------------------------------------------------------------- the layer */

static u64 load(const u8 *addr, unsigned size)
{
	u64 v = 0;

	memcpy(&v, addr, size);
	return v;
}

static bool known_memory(const u8 *addr)
{
	const u8 *n = variant->nodes, *q = variant->queue, *c = (u8 *)&w.counter;

	return (addr >= n && addr < n + variant->nodes_size) || (addr >= q && addr < q + 4) ||
	       (addr >= c && addr < c + 8);
}

static noinline u64 model_access(enum model_op op, void *addr, unsigned size, u64 a, u64 b,
				 struct model_site *site)
{
	struct model_cpu *c;
	u64 v;

	if (running < 0) {
		v = addr ? load(addr, size) : 0;
		if (op == OP_PLAIN || op == OP_WRITE || op == OP_RELEASE)
			memcpy(addr, &a, size);
		return v;
	}
	c = &w.cpu[running];
	c->req = (struct model_request){a, b, addr, site, (u8)op, (u8)size, 0, {0}};
	model_switch(&c->sp, main_sp);
	return w.cpu[running].result;
}

#define MODEL_SITE(text_)                                                                          \
	({                                                                                         \
		static struct model_site site_ = {.text = text_};                                  \
		site_.func = __func__;                                                             \
		&site_;                                                                            \
	})
#define MODEL(op, p, v, old, text)                                                                 \
	((__typeof__(*(p)))model_access(op, (void *)(p), sizeof(*(p)), (u64)(v), (u64)(old),       \
					MODEL_SITE(text)))

#define OSQ_ATOMICS
#define OSQ_CPU_BASE		      model_cpu_base
#define smp_processor_id()	      ((s32)running)
#define osq_read(x)		      MODEL(OP_READ, &(x), 0, 0, "read " #x)
#define osq_write(x, v)		      ((void)MODEL(OP_WRITE, &(x), v, 0, "write " #x))
#define osq_plain(x, v)		      ((void)MODEL(OP_PLAIN, &(x), v, 0, "plain " #x))
#define smp_store_release(p, v)	      ((void)MODEL(OP_RELEASE, p, v, 0, "release " #p))
#define smp_load_acquire(p)	      MODEL(OP_ACQUIRE, p, 0, 0, "acquire " #p)
#define atomic_xchg(p, v)	      MODEL(OP_XCHG, p, v, 0, "xchg " #p)
#define cmpxchg32(p, old, new)	      MODEL(OP_CMPXCHG, p, new, (u32)(old), "cmpxchg " #p)
#define cmpxchg_ptr(p, old, new)      MODEL(OP_CMPXCHG, p, new, old, "cmpxchg " #p)
#define smp_wmb()		      model_access(OP_BARRIER, NULL, 0, 0, 0, MODEL_SITE("wmb"))
#define smp_acquire__after_ctrl_dep() model_access(OP_CTRL, NULL, 0, 0, 0, MODEL_SITE("ctrl"))
#define cpu_relax()		      model_access(OP_RELAX, NULL, 0, 0, 0, MODEL_SITE("relax"))
#define need_resched()		      model_access(OP_CHOICE, NULL, 0, 0, 0, MODEL_SITE("choice"))
#define OSQ_HAND_OFF(x, v)	      ((void)MODEL(OP_WRITE, &(x), v, 0, "handoff " #x))
#define OSQ_HAND_OFF_RELEASE(x, v)    ((void)MODEL(OP_RELEASE, &(x), v, 0, "handoff " #x))
#define OSQ_COUNT(exit)		      (exits_taken[EXIT_##exit]++)
enum { EXIT_locked_late, EXIT_step_a_retry, EXIT_last, EXIT_relinked };

/* The question asks about a processor that exists and is another. */
static bool model_preempted(s64 cpu)
{
	if (running >= 0 && (cpu < 0 || cpu >= cpus || cpu == running))
		violation = "vcpu_is_preempted() asks about a processor that cannot be in front";
	return false;
}

/* -------------------------------------------------------------------- requests */

static enum mutation mutation_of(struct model_site *s)
{
	if (!mutant || !mutant->text || !s)
		return MUT_NONE;
	if (s->asked_for != mutant) {
		s->asked_for = mutant;
		s->mutated = !strcmp(s->text, mutant->text) && strstr(s->func, mutant->func) ? 2 : 1;
		mutant_hits += s->mutated == 2;
	}
	return s->mutated == 2 ? mutant->kind : MUT_NONE;
}

static bool is_store(u8 op)
{
	return op == OP_PLAIN || op == OP_WRITE || op == OP_RELEASE;
}

static bool is_full(const struct model_request *r)
{
	return (r->op == OP_XCHG || r->op == OP_CMPXCHG) && mutation_of(r->site) != MUT_WEAK;
}

static u64 mask(unsigned size, u64 v)
{
	return size == 8 ? v : v & ((1ull << 8 * size) - 1);
}

/* Everybody may have reason to look again. */
static void commit(u8 *addr, unsigned size, u64 v, unsigned by)
{
	if (load(addr, size) == mask(size, v))
		return;
	if (weak_mode && addr == (u8 *)&w.counter) {
		for (unsigned q = 0; q < cpus; q++)
			w.cpu[q].stale |= q == by ? 0 : 1u << (w.counter & 7);
		w.cpu[by].stale = 0;
	}
	memcpy(addr, &v, size);
	for (unsigned q = 0; q < cpus; q++) {
		w.cpu[q].changed = true;
		w.cpu[q].asleep = false;
		w.cpu[q].quiet = 0;
	}
}

/* What comes now is separated from what is in the buffer. */
static void fence_stores(struct model_cpu *c)
{
	if (weak_mode && c->stores && c->store[c->stores - 1].epoch == c->epoch)
		c->epoch++;
}

static void push(struct model_cpu *c, struct model_store s)
{
	c->store[c->stores++] = s;
}

static void do_store(struct model_cpu *c, const struct model_request *r, enum mutation m)
{
	struct model_store s = {mask(r->size, r->a), r->addr, r->size, 0, r->op != OP_PLAIN, {0}};

	if (m == MUT_SKIP)
		return;
	if (r->op == OP_RELEASE && m != MUT_WEAK)
		fence_stores(c);
	if (m == MUT_WEAK)
		s.ordered = false;
	if (m == MUT_DELAY) {
		s.epoch = c->epoch;
		c->late = s;
		c->has_late = true;
		return;
	}
	s.epoch = c->epoch;
	push(c, s);
	if (mutant && mutant->kind == MUT_STALE && strstr(r->site->text, "plain node->prev"))
		c->own_value = r->a;
	if (c->has_late) {
		c->late.epoch = c->epoch;
		push(c, c->late);
		c->has_late = false;
		memset(&c->late, 0, sizeof(c->late));
	}
}

static u64 do_load(const struct model_cpu *c, const u8 *addr, unsigned size)
{
	for (int i = c->stores - 1; i >= 0; i--) {
		if (c->store[i].addr == addr)
			return c->store[i].value;
	}
	return load(addr, size);
}

static void joined(unsigned p, const struct model_request *r)
{
	if (r->addr == variant->queue && r->op == OP_XCHG) {
		w.order[w.queued++] = (u8)p;
		w.cpu[p].waiting = true;
	}
}

static void do_rmw(unsigned p, struct model_request *r, enum mutation m)
{
	struct model_cpu *c = &w.cpu[p];
	u64 seen = m == MUT_SPLIT && r->phase ? c->split : do_load(c, r->addr, r->size);
	bool swaps = r->op == OP_XCHG || seen == mask(r->size, r->b);

	c->result = seen;
	if (m == MUT_SPLIT && !r->phase) {
		c->split = seen;
		r->phase = 1;
		return;
	}
	if (m == MUT_LIE) {
		c->result = mask(r->size, r->b);
		return;
	}
	if (!r->phase || m == MUT_SPLIT)
		joined(p, r);
	if (swaps && m != MUT_READ_ONLY)
		commit(r->addr, r->size, r->a, p);
	c->stale = 0;
}

/* Nothing is on its way any more: one is inside, the others wait and have looked. */
static bool quiescent(void)
{
	unsigned inside = 0;

	for (unsigned q = 0; q < cpus; q++) {
		inside += w.cpu[q].inside;
		if (w.cpu[q].stores || w.cpu[q].has_late ||
		    (w.cpu[q].waiting && !w.cpu[q].asleep))
			return false;
	}
	return inside == 1;
}

/* Then whoever was told to leave must be gone, and each must name the one in front of it. */
static void check_queue(void)
{
	int front = -1;

	for (unsigned q = 0; q < cpus; q++) {
		if (w.cpu[q].inside)
			front = (int)q;
		if (w.cpu[q].leaving)
			violation = "a waiter that was told to leave cannot";
	}
	for (unsigned i = 0; i < w.queued && !violation && variant->prev_of; i++) {
		if (variant->prev_of(w.order[i]) != front)
			violation = "a waiter names a predecessor that is not in front of it";
		front = w.order[i];
	}
}

static void relax(struct model_cpu *c)
{
	c->stale = 0;
	fence_stores(c);
	/* Twice round without a change anywhere: what was read in the first round has been acted on
	 * in the second, and a third would be the same. */
	c->quiet = c->changed || c->stores ? 0 : c->quiet + 1;
	c->asleep = c->quiet >= 2;
	c->changed = false;
	if (c->asleep && quiescent())
		check_queue();
}

static void do_op(unsigned p, unsigned pick)
{
	struct model_cpu *c = &w.cpu[p];
	struct model_request *r = &c->req;
	enum mutation m = mutation_of(r->site);

	switch (r->op) {
	case OP_READ:
	case OP_ACQUIRE:
		c->result = m == MUT_STALE ? c->own_value
			    : m == MUT_ZERO ? 0
					    : do_load(c, r->addr, r->size);
		if (r->op == OP_ACQUIRE && m != MUT_WEAK)
			c->stale = 0;
		break;
	case OP_PLAIN_READ:
		c->result = pick ? pick - 1 : do_load(c, r->addr, r->size);
		break;
	case OP_PLAIN:
	case OP_WRITE:
	case OP_RELEASE:
		do_store(c, r, m);
		break;
	case OP_XCHG:
	case OP_CMPXCHG:
		do_rmw(p, r, m);
		break;
	case OP_BARRIER:
		if (m != MUT_SKIP) {
			fence_stores(c);
			c->stale = 0;
		}
		break;
	case OP_CTRL:
		if (m != MUT_SKIP)
			c->stale = 0;
		break;
	case OP_RELAX:
		relax(c);
		break;
	case OP_CHOICE:
		c->result = pick;
		w.unqueues -= pick;
		c->leaving |= pick;
		c->quiet = pick ? 0 : c->quiet;
		c->changed |= pick; /* another loop begins, which has not looked yet */
		break;
	}
}

static void resume(unsigned p)
{
	running = (int)p;
	model_switch(&main_sp, w.cpu[p].sp);
	running = -1;
}

/* -------------------------------------------------------------------- what a processor does */

static u8 turns[MODEL_CPUS];

static void leave_queue(unsigned p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w.queued; i++) {
		if (w.order[i] != p)
			w.order[n++] = w.order[i];
	}
	while (w.queued > n)
		w.order[--w.queued] = 0;
	w.cpu[p].waiting = w.cpu[p].leaving = false;
}

static void entered(unsigned p)
{
	for (unsigned q = 0; q < cpus; q++) {
		if (w.cpu[q].inside)
			violation = "two holders at once";
	}
	for (unsigned i = 0; i < w.queued && w.order[i] != p; i++) {
		if (!w.cpu[w.order[i]].leaving)
			violation = "a later one got the lock first";
	}
	w.cpu[p].inside = true;
	w.acquired++;
	leave_queue(p);
}

static void guarded_work(void)
{
	u64 v = MODEL(OP_PLAIN_READ, &w.counter, 0, 0, "guarded");

	(void)MODEL(OP_PLAIN, &w.counter, v + 1, 0, "guarded");
}

static void processor(void)
{
	unsigned p = (unsigned)running;

	for (unsigned i = 0; i < turns[p]; i++) {
		if (variant->lock()) {
			entered(p);
			guarded_work();
			w.cpu[p].inside = false;
			variant->unlock();
		} else {
			leave_queue(p);
		}
	}
	for (;;)
		model_access(OP_DONE, NULL, 0, 0, 0, NULL);
}

#endif
