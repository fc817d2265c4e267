/* SPDX-License-Identifier: GPL-2.0-only */
/* The explorer over model.h: depth first, states by hash, preemptions bounded. */
#ifndef MCSPIN_TESTS_HOST_EXPLORE_H
#define MCSPIN_TESTS_HOST_EXPLORE_H

#include "model.h"

#define MAX_DEPTH 20000
#define MAX_MOVES 24

enum move_kind { MOVE_STEP, MOVE_FLUSH };
struct move {
	u8 kind, cpu, pick;
};

struct snapshot {
	struct model_world w;
	u8 *bytes; /* queue, nodes, mine, stacks from their sp */
	size_t len;
	u8 budget;
	u8 moves, next;
	struct move move[MAX_MOVES];
};

static struct snapshot *path;
static u64 *seen_key;
static u8 *seen_budget;
static size_t seen_cap, seen_count;
static u64 steps_taken;

/* -------------------------------------------------------------------- states */

static size_t gather_bytes(u8 *to)
{
	size_t at = 0;

	memcpy(to, variant->queue, 4);
	at = 8;
	memcpy(to + at, variant->nodes, variant->nodes_size);
	at += variant->nodes_size;
	memcpy(to + at, variant->mine, variant->mine_size);
	at += variant->mine_size;
	for (unsigned p = 0; p < cpus; p++) {
		size_t used = (size_t)((u64)stacks[p] + MODEL_STACK - w.cpu[p].sp);

		memcpy(to + at, (void *)w.cpu[p].sp, used);
		at += used;
	}
	return at;
}

static void restore(const struct snapshot *s)
{
	const u8 *from = s->bytes;

	w = s->w;
	memcpy(variant->queue, from, 4);
	from += 8;
	memcpy(variant->nodes, from, variant->nodes_size);
	from += variant->nodes_size;
	memcpy(variant->mine, from, variant->mine_size);
	from += variant->mine_size;
	for (unsigned p = 0; p < cpus; p++) {
		size_t used = (size_t)((u64)stacks[p] + MODEL_STACK - w.cpu[p].sp);

		memcpy((void *)w.cpu[p].sp, from, used);
		from += used;
	}
}

static u64 mix(u64 h, const void *data, size_t len)
{
	const u8 *p = data;

	for (; len >= 8; len -= 8, p += 8) {
		u64 v;

		memcpy(&v, p, 8);
		h = (h ^ v) * 0x9fb21c651e98df25ull;
		h ^= h >> 32;
	}
	while (len--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

static u64 state_key(const struct snapshot *s)
{
	u64 h = mix(0x1234567, s->bytes, s->len);

	for (unsigned p = 0; p < cpus; p++) {
		const struct model_cpu *c = &s->w.cpu[p];
		size_t from = offsetof(struct model_cpu, req);

		h = mix(h, &c->sp, sizeof(c->sp));
		h = mix(h, c->store, c->stores * sizeof(c->store[0]));
		h = mix(h, (const u8 *)c + from, sizeof(*c) - from);
	}
	return mix(h, &s->w.order, sizeof(s->w) - offsetof(struct model_world, order));
}

/* True when this state was explored with as many preemptions left. */
static bool seen(u64 key, u8 budget)
{
	size_t i;

	if (!key)
		key = 1;
	if (seen_count * 2 >= seen_cap) {
		u64 *old_key = seen_key;
		u8 *old_budget = seen_budget;
		size_t old = seen_cap;

		seen_cap = seen_cap ? seen_cap * 2 : 1 << 14;
		seen_key = calloc(seen_cap, sizeof(*seen_key));
		seen_budget = calloc(seen_cap, 1);
		for (size_t k = 0; k < old; k++) {
			if (!old_key[k])
				continue;
			for (i = old_key[k] & (seen_cap - 1); seen_key[i]; i = (i + 1) & (seen_cap - 1))
				;
			seen_key[i] = old_key[k];
			seen_budget[i] = old_budget[k];
		}
		free(old_key);
		free(old_budget);
	}
	for (i = key & (seen_cap - 1); seen_key[i]; i = (i + 1) & (seen_cap - 1)) {
		if (seen_key[i] != key)
			continue;
		if (seen_budget[i] > budget)
			return true;
		seen_budget[i] = (u8)(budget + 1);
		return false;
	}
	seen_key[i] = key;
	seen_budget[i] = (u8)(budget + 1);
	seen_count++;
	return false;
}

/* -------------------------------------------------------------------- moves */

/* May store i of c's buffer become visible now? */
static bool may_flush(const struct model_cpu *c, unsigned i)
{
	for (unsigned j = 0; j < i; j++) {
		const struct model_store *a = &c->store[j], *b = &c->store[i];

		if (!weak_mode || a->addr == b->addr || (a->ordered && b->ordered) ||
		    a->epoch != b->epoch)
			return false;
	}
	return true;
}

/* Does nobody else notice that this request is served now? Then no order has to be tried. */
static bool is_private(const struct model_cpu *c)
{
	u8 op = c->req.op;

	if (is_store(op))
		return c->stores + 2 <= MODEL_STORES;
	if (op == OP_CHOICE)
		return true;
	return !weak_mode && (op == OP_BARRIER || op == OP_CTRL);
}

static bool may_step(const struct model_cpu *c)
{
	if (c->done || c->asleep)
		return false;
	if (is_full(&c->req))
		return !c->stores;
	return !is_store(c->req.op) || c->stores + 2 <= MODEL_STORES;
}

static void add(struct snapshot *s, enum move_kind kind, unsigned cpu, unsigned pick)
{
	if (s->moves == MAX_MOVES) {
		violation = "the explorer has too few moves (error of the test)";
		return;
	}
	s->move[s->moves++] = (struct move){(u8)kind, (u8)cpu, (u8)pick};
}

static void add_steps(struct snapshot *s, unsigned p)
{
	const struct model_cpu *c = &w.cpu[p];

	add(s, MOVE_STEP, p, 0);
	if (c->req.op == OP_CHOICE && w.unqueues)
		add(s, MOVE_STEP, p, 1);
	if (c->req.op == OP_PLAIN_READ && weak_mode) {
		for (unsigned v = 0; v < 8; v++) {
			if (c->stale >> v & 1 && v != w.counter)
				add(s, MOVE_STEP, p, v + 1);
		}
	}
}

/* What it costs to let `p` go on. */
static unsigned price(unsigned p)
{
	return p != w.current && !w.yielded && may_step(&w.cpu[w.current]);
}

static void find_moves(struct snapshot *s)
{
	s->moves = s->next = 0;
	for (unsigned p = 0; p < cpus; p++) {
		if (may_step(&w.cpu[p]) && is_private(&w.cpu[p])) {
			add_steps(s, p);
			return;
		}
	}
	for (unsigned k = 0; k < cpus; k++) {
		unsigned p = (w.current + k) % cpus;

		if (may_step(&w.cpu[p]) && price(p) <= s->budget)
			add_steps(s, p);
	}
	for (unsigned p = 0; p < cpus; p++) {
		for (unsigned i = 0; i < w.cpu[p].stores; i++) {
			if (may_flush(&w.cpu[p], i))
				add(s, MOVE_FLUSH, p, i);
		}
	}
}

static void flush(unsigned p, unsigned i)
{
	struct model_cpu *c = &w.cpu[p];
	struct model_store s = c->store[i];

	for (unsigned j = i + 1; j < c->stores; j++)
		c->store[j - 1] = c->store[j];
	memset(&c->store[--c->stores], 0, sizeof(s));
	if (!c->stores)
		c->epoch = 0;
	commit(s.addr, s.size, s.value, p);
}

static void make_move(struct snapshot *s, const struct move *m)
{
	struct model_cpu *c = &w.cpu[m->cpu];
	bool quiet = is_private(c);

	steps_taken++;
	if (m->kind == MOVE_FLUSH) {
		flush(m->cpu, m->pick);
		return;
	}
	if (!quiet) {
		s->budget -= (u8)price(m->cpu);
		w.current = m->cpu;
		w.yielded = c->req.op == OP_RELAX;
	}
	do_op(m->cpu, m->pick);
	if (c->req.phase == 1) {
		c->req.phase = 2;
		return;
	}
	resume(m->cpu);
	c->split = 0;
	c->done = c->req.op == OP_DONE;
	if (c->req.addr && !known_memory(c->req.addr))
		violation = "an access to memory that is no node and no queue";
}

/* -------------------------------------------------------------------- the search */

static void judge_end(void)
{
	for (unsigned p = 0; p < cpus; p++) {
		if (!w.cpu[p].done) {
			violation = "everybody waits and nobody will come: a hand-off or a link was lost";
			return;
		}
	}
	if (w.counter != w.acquired)
		violation = "guarded data lost an update: what a holder wrote was not seen by the next";
	else if (!variant->idle())
		violation = "the queue is not idle at the end";
	for (unsigned p = 0; p < cpus && !violation; p++) {
		if (!variant->node_idle(p))
			violation = "a node is not idle at the end";
	}
}

static void keep(struct snapshot *s)
{
	static u8 buf[4096 + MODEL_CPUS * MODEL_STACK];
	size_t len = gather_bytes(buf);

	if (len > s->len || !s->bytes) {
		free(s->bytes);
		s->bytes = malloc(len);
	}
	s->len = len;
	memcpy(s->bytes, buf, len);
	s->w = w;
}

static void start_world(u8 unqueues)
{
	memset(&w, 0, sizeof(w));
	memset(stacks, 0, sizeof(stacks));
	memset(variant->nodes, 0, variant->nodes_size);
	memset(variant->mine, 0, variant->mine_size);
	memset(variant->queue, 0, 4);
	variant->init();
	w.unqueues = unqueues;
	for (unsigned p = 0; p < cpus; p++) {
		u64 *sp = (u64 *)(stacks[p] + MODEL_STACK) - 1;

		*--sp = (u64)processor; /* entered as by a call: 8 past a multiple of 16 */
		sp -= 6;
		w.cpu[p].sp = (u64)sp;
		w.cpu[p].changed = true;
		resume(p);
	}
}

/* Explore all; NULL, or what went wrong. */
static const char *explore(const struct model_variant *v, unsigned n, u8 each, u8 unqueues, u8 bound)
{
	size_t depth = 0;

	variant = v;
	cpus = n;
	memset(turns, each, sizeof(turns));
	violation = NULL;
	free(seen_key);
	free(seen_budget);
	seen_key = NULL;
	seen_budget = NULL;
	seen_cap = seen_count = 0;
	if (!path)
		path = calloc(MAX_DEPTH + 1, sizeof(*path));
	start_world(unqueues);
	path[0].budget = bound;
	keep(&path[0]);
	find_moves(&path[0]);
	for (;;) {
		struct snapshot *s = &path[depth], *next = &path[depth + 1];
		u64 key;

		if (s->next == s->moves) {
			if (!depth--)
				return NULL;
			continue;
		}
		restore(s);
		next->budget = s->budget;
		make_move(next, &s->move[s->next++]);
		if (violation)
			return violation;
		keep(next);
		key = state_key(next);
		if (seen(key, next->budget))
			continue;
		find_moves(next);
		if (!next->moves) {
			bool stuck = true;

			for (unsigned p = 0; p < cpus; p++)
				stuck &= !may_step(&w.cpu[p]);
			if (stuck) /* else only the bound stops it */
				judge_end();
			if (violation)
				return violation;
			continue;
		}
		if (++depth == MAX_DEPTH)
			return "the explorer's path is too long (error of the test)";
	}
}

#endif
