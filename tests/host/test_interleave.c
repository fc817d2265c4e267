// SPDX-License-Identifier: GPL-2.0-only
/*
 * All interleavings of the real lock source (src/osq/osq_lock.h, osq_merged.h, osq_clh.h) on two and
 * three processors, in two memory modes, with waiters that may be told to leave at any look they
 * take. Then the same with one thing broken at a time: each barrier dropped, each step of the
 * unqueue path spoilt, "unlocked" looking like processor 0. Every one of them must be found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <time.h>

#include "explore.h"
#include "../../src/osq/osq.h"
#include "../../src/osq/osq_forms.h"

static struct optimistic_spin_node m_nodes[MODEL_CPUS];
static struct osq_padded_node m_padded[MODEL_CPUS];
static struct osq_prev_cpu_node m_prev_cpu[MODEL_CPUS];
static struct osq_merged_node m_merged[MODEL_CPUS];
static struct osq_clh_node m_clh[MODEL_CPUS + 1];
static struct osq_clh_mine m_mine[MODEL_CPUS];

#define ASK_PREV(node) model_preempted(node_cpu(osq_read((node)->prev)))

#define OSQ_NAME(x)		x##_linux
#define OSQ_NODE		optimistic_spin_node
#define OSQ_NODES		m_nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	ASK_PREV(node)
#include "../../src/osq/osq_lock.h"

/* c_code with its site filled with NOPs: the callee gets what was there, 0. */
#define OSQ_NAME(x)		x##_c_code
#define OSQ_NODE		optimistic_spin_node
#define OSQ_NODES		m_nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	((void)(node), false)
#include "../../src/osq/osq_lock.h"

/* static_key with the key off reads as little; with it on it is linux. */
#define OSQ_NAME(x)		x##_static_key
#define OSQ_NODE		optimistic_spin_node
#define OSQ_NODES		m_nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	(key_on && ASK_PREV(node))
static bool key_on;
#include "../../src/osq/osq_lock.h"

#define OSQ_NAME(x)		x##_padded
#define OSQ_NODE		osq_padded_node
#define OSQ_NODES		m_padded
#define OSQ_SET_CPU		OSQ_SET_CPU_IF_NEW
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	ASK_PREV(node)
#include "../../src/osq/osq_lock.h"

#define OSQ_NAME(x)		x##_prev_cpu
#define OSQ_NODE		osq_prev_cpu_node
#define OSQ_NODES		m_prev_cpu
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_SET_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_MOVE_PREV_CPU
#define OSQ_PREEMPTED(node)	model_preempted((s64)osq_read((node)->prev_cpu) - OSQ_CPU_BASE)
#include "../../src/osq/osq_lock.h"

#define OSQ_NAME(x)		x##_merged
#define OSQ_NODE		osq_merged_node
#define OSQ_NODES		m_merged
#define OSQ_PREEMPTED_CPU(cpu)	model_preempted((s64)(cpu) - OSQ_CPU_BASE)
#include "../../src/osq/osq_merged.h"

#define OSQ_NAME(x)		x##_clh
#define OSQ_NODES		m_clh
#define OSQ_MINE		m_mine
#define OSQ_PREEMPTED_CPU(cpu)	model_preempted((s64)(cpu) - OSQ_CPU_BASE)
#include "../../src/osq/osq_clh.h"

static void no_init(void)
{
}

static void init_clh(void)
{
	for (s32 i = 0; i < MODEL_CPUS; i++)
		m_mine[i].node = i;
	queue_clh.tail = MODEL_CPUS;
}

#define PREV_OF(f, nodes_)                                                                         \
	static int prev_of_##f(unsigned cpu)                                                       \
	{                                                                                          \
		return (int)(nodes_[cpu].prev - nodes_);                                           \
	}
PREV_OF(linux, m_nodes)
PREV_OF(padded, m_padded)
PREV_OF(prev_cpu, m_prev_cpu)

static int prev_of_merged(unsigned cpu)
{
	return m_merged[cpu].prev_cpu - model_cpu_base;
}

#define FORM(f, prev_of, nodes_)                                                                   \
	{#f, osq_lock_##f, osq_unlock_##f, idle_##f, node_idle_##f, no_init, prev_of, &queue_##f,  \
	 nodes_, nodes_, sizeof(nodes_), 0}
static const struct model_variant variants[] = {
	FORM(linux, prev_of_linux, m_nodes),
	FORM(c_code, prev_of_linux, m_nodes),
	FORM(static_key, prev_of_linux, m_nodes),
	FORM(padded, prev_of_padded, m_padded),
	FORM(prev_cpu, prev_of_prev_cpu, m_prev_cpu),
	FORM(merged, prev_of_merged, m_merged),
	{"clh", osq_lock_clh, osq_unlock_clh, idle_clh, node_idle_clh, init_clh, NULL, &queue_clh,
	 m_clh, m_mine, sizeof(m_clh), sizeof(m_mine)},
};

static const struct model_variant *variant_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		if (!strcmp(variants[i].name, name))
			return &variants[i];
	}
	return NULL;
}

/* The searches: processors, turns of each, times that somebody may leave, preemptions. */
static const struct {
	u8 cpus, turns, unqueues, bound;
	bool weak;
} searches[] = {
	{2, 2, 2, 4, false},
	{2, 2, 2, 4, true},
	{3, 1, 2, 2, false},
	{3, 1, 1, 1, true},
};

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static unsigned long long all_states;

static const char *search(const struct model_variant *v, unsigned i)
{
	const char *wrong;

	weak_mode = searches[i].weak;
	wrong = explore(v, searches[i].cpus, searches[i].turns, searches[i].unqueues,
			searches[i].bound);
	all_states += seen_count;
	return wrong;
}

static void each_variant_holds(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(variants); v++) {
		memset(exits_taken, 0, sizeof(exits_taken));
		for (unsigned k = 0; k < ARRAY_SIZE(searches); k++) {
			double start = seconds();
			const char *wrong = search(&variants[v], k);

			printf("interleave %-10s %u processors, %s: %zu states, %.1f s%s%s\n",
			       variants[v].name, searches[k].cpus, searches[k].weak ? "weak" : "TSO ",
			       seen_count, seconds() - start, wrong ? ": " : "", wrong ? wrong : "");
			if (wrong)
				fail_msg("%s: %s", variants[v].name, wrong);
		}
		printf("interleave %-10s exits: late %llu, retry %llu, last %llu, relinked %llu\n",
		       variants[v].name, (unsigned long long)exits_taken[0],
		       (unsigned long long)exits_taken[1], (unsigned long long)exits_taken[2],
		       (unsigned long long)exits_taken[3]);
		/* In the CLH queue nobody is handed a lock while leaving. */
		assert_true(exits_taken[0] || !strcmp(variants[v].name, "clh"));
		assert_true(exits_taken[1] && exits_taken[2] && exits_taken[3]);
	}
}

static void the_key_may_be_on(void **state)
{
	(void)state;
	key_on = true;
	for (unsigned i = 0; i < ARRAY_SIZE(searches) - 1; i++)
		assert_null(search(variant_named("static_key"), i));
	key_on = false;
}

/* Its nodes wander, so that one comes back to the tail only after several turns of three. */
static void nodes_wander(void **state)
{
	const char *wrong;

	(void)state;
	weak_mode = false;
	wrong = explore(variant_named("clh"), 3, 2, 1, 1);
	all_states += seen_count;
	assert_null(wrong);
}

/* -------------------------------------------------------------------- broken on purpose */

/* Found by others before it knows its predecessor: in the source's order, and in the compiler's. */
#define BUG_OF_2017(v)                                                                             \
	{v, "osq_lock", "plain node->prev", MUT_DELAY, false},                                     \
	{v, "osq_lock", "wmb", MUT_SKIP, true}

/* Not among them, because x86 gives their order anyway: the exchange of node->next in osq_unlock(),
 * which follows a locked instruction. */
#define LINUX_KIND(v)                                                                              \
	BUG_OF_2017(v),                                                                            \
	{v, "osq_lock", "xchg &OSQ_NAME(queue).tail", MUT_WEAK, false},                            \
	{v, "osq_lock", "xchg &OSQ_NAME(queue).tail", MUT_SPLIT, false},                           \
	{v, "spin_on_owner", "ctrl", MUT_SKIP, true},                                              \
	{v, "unqueue", "acquire &node->locked", MUT_WEAK, true},                                   \
	{v, "osq_unlock", "cmpxchg &lock->tail", MUT_WEAK, false},                                 \
	{v, "osq_unlock", "xchg &node->next", MUT_READ_ONLY, false},                               \
	{v, "osq_unlock", "handoff next->locked", MUT_SKIP, false},                                \
	{v, "unqueue", "cmpxchg &prev->next", MUT_LIE, false}, /* step A */                        \
	{v, "unqueue", "acquire &node->locked", MUT_ZERO, false},                                  \
	{v, "unqueue", "read node->prev", MUT_STALE, false},                                       \
	{v, "osq_wait_next", "cmpxchg &lock->tail", MUT_LIE, false}, /* step B */                  \
	{v, "osq_wait_next", "xchg &node->next", MUT_READ_ONLY, false},                            \
	{v, "unqueue", "write next->prev", MUT_SKIP, false}, /* step C */                          \
	{v, "unqueue", "write prev->next", MUT_SKIP, false},                                       \
	{v, NULL, NULL, MUT_BASE, false} /* processor 0 looks like unlocked */

static const struct model_mutant mutants[] = {
	LINUX_KIND("linux"),
	/* The same text but for the question, which changes nothing. */
	BUG_OF_2017("c_code"),
	BUG_OF_2017("static_key"),
	BUG_OF_2017("padded"),
	LINUX_KIND("prev_cpu"),
	{"merged", "osq_lock", "plain node->prev_cpu", MUT_DELAY, false},
	{"merged", "osq_lock", "release &prev->next", MUT_WEAK, true},
	{"merged", "osq_lock", "xchg &OSQ_NAME(queue).tail", MUT_SPLIT, false},
	{"merged", "spin_on_owner", "ctrl", MUT_SKIP, true},
	{"merged", "unqueue", "acquire &node->prev_cpu", MUT_WEAK, true},
	{"merged", "osq_unlock", "cmpxchg &lock->tail", MUT_WEAK, false},
	{"merged", "osq_unlock", "xchg &node->next", MUT_READ_ONLY, false},
	{"merged", "osq_unlock", "handoff next->prev_cpu", MUT_SKIP, false},
	{"merged", "unqueue", "cmpxchg &prev->next", MUT_LIE, false},
	{"merged", "osq_wait_next", "cmpxchg &lock->tail", MUT_LIE, false},
	{"merged", "osq_wait_next", "xchg &node->next", MUT_READ_ONLY, false},
	{"merged", "unqueue", "write next->prev_cpu", MUT_SKIP, false},
	{"merged", "unqueue", "write next->prev_cpu", MUT_DELAY, false},
	{"merged", "unqueue", "release &prev->next", MUT_SKIP, false},
	{"merged", "unqueue", "release &prev->next", MUT_WEAK, true},
	{"merged", NULL, NULL, MUT_BASE, false},
	{"clh", "osq_lock", "xchg &OSQ_NAME(queue).tail", MUT_WEAK, false},
	{"clh", "osq_lock", "xchg &OSQ_NAME(queue).tail", MUT_SPLIT, false},
	{"clh", "spin_on_owner", "ctrl", MUT_SKIP, true},
	{"clh", "osq_unlock", "handoff OSQ_NODES[mine].word", MUT_SKIP, false},
	{"clh", "osq_unlock", "handoff OSQ_NODES[mine].word", MUT_WEAK, true},
	{"clh", "osq_unlock", "cmpxchg &lock->tail", MUT_LIE, false},
	{"clh", "osq_unlock", "cmpxchg &lock->tail", MUT_WEAK, false},
	{"clh", "leave", "cmpxchg &lock->tail", MUT_LIE, false},
	{"clh", "leave", "release &OSQ_NODES[mine].word", MUT_SKIP, false},
	{"clh", "spin_on_owner", "write OSQ_NODES[*pred].word", MUT_SKIP, false},
	{"clh", NULL, NULL, MUT_BASE, false},
};

static const char *const kinds[] = {"", "dropped", "without its ordering", "done too late", "stale",
				    "not atomic", "only pretended", "read only", "read as 0",
				    "processor 0 stored as 0"};

/* The searches that can show it, cheapest first; the first finding ends it. */
static const char *hunt(const struct model_mutant *m, unsigned *hits)
{
	const char *wrong = NULL;

	mutant = m;
	mutant_hits = 0;
	model_cpu_base = m->kind == MUT_BASE ? 0 : 1;
	for (unsigned i = 0; i < ARRAY_SIZE(searches) && !wrong; i++) {
		if (searches[i].weak == m->weak_only)
			wrong = search(variant_named(m->variant), i);
	}
	*hits = mutant_hits;
	mutant = NULL;
	model_cpu_base = 1;
	return wrong;
}

static void each_mutant_dies(void **state)
{
	unsigned alive = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(mutants); i++) {
		const struct model_mutant *m = &mutants[i];
		unsigned hits;
		const char *wrong = hunt(m, &hits);

		printf("mutant %-10s %-14s %-32s %-20s %s: %s\n", m->variant,
		       m->func ? m->func : "", m->text ? m->text : "", kinds[m->kind],
		       m->weak_only ? "weak" : "TSO ", wrong ? wrong : "NOT FOUND");
		if (m->text && !hits)
			fail_msg("the mutant names no place in the source");
		alive += !wrong;
	}
	assert_int_equal(alive, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_variant_holds),
		cmocka_unit_test(the_key_may_be_on),
		cmocka_unit_test(nodes_wander),
		cmocka_unit_test(each_mutant_dies),
	};
	double start = seconds();
	int failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	failed = cmocka_run_group_tests_name("interleave", tests, NULL, NULL);

	printf("interleave in all: %llu states, %llu steps, %.1f s\n", all_states,
	       (unsigned long long)steps_taken, seconds() - start);
	return failed;
}
