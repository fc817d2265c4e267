/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every exit of the unqueue path, on one processor: the question of the spin loop is a script that
 * plays the other processors' part at the one moment that matters. What the stress tests reach by
 * luck is reached here for certain, in each kind of queue.
 */
#include "osq.h"
#include "osq_forms.h"
#include "../platform.h"
#include "../run/run.h"

static bool (*script)(void); /* asked in the spin loop; true: leave */
static void (*relaxing)(void); /* played once, at the next cpu_relax() */

static void script_relax(void)
{
	void (*now)(void) = relaxing;

	relaxing = NULL;
	if (now)
		now();
}
#define cpu_relax() script_relax()

static struct optimistic_spin_node *play_nodes;
static struct osq_merged_node *play_merged;
static struct osq_clh_node *play_clh;
static struct osq_clh_mine *play_mine;
static s64 asked; /* the argument the question came with */

static bool ask(s64 cpu)
{
	asked = cpu;
	return script();
}

#define OSQ_NAME(x)		x##_play
#define OSQ_NODE		optimistic_spin_node
#define OSQ_NODES		play_nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	ask(node_cpu(osq_read((node)->prev)))
#include "osq_lock.h"

#define OSQ_NAME(x)		x##_play_merged
#define OSQ_NODE		osq_merged_node
#define OSQ_NODES		play_merged
#define OSQ_PREEMPTED_CPU(cpu)	ask((s64)(cpu) - OSQ_CPU_BASE)
#include "osq_merged.h"

#define OSQ_NAME(x)		x##_play_clh
#define OSQ_NODES		play_clh
#define OSQ_MINE		play_mine
#define OSQ_PREEMPTED_CPU(cpu)	ask((s64)(cpu) - OSQ_CPU_BASE)
#include "osq_clh.h"

/* The cast: ourselves, P who holds the lock, Q who comes behind us or takes P's place. */
static u32 me, p, q;

static bool set_the_stage(struct test_run *t)
{
	size_t n = platform_cpus() + 2;

	me = smp_processor_id();
	p = platform_cpus();
	q = p + 1;
	if (!play_nodes) {
		play_nodes = platform_alloc(n * sizeof(*play_nodes));
		play_merged = platform_alloc(n * sizeof(*play_merged));
		play_clh = platform_alloc((n + 1) * sizeof(*play_clh));
		play_mine = platform_alloc(n * sizeof(*play_mine));
	}
	if (!play_nodes || !play_merged || !play_clh || !play_mine) {
		check_error(t, "no memory for the stage");
		return false;
	}
	memset(&osq_exits, 0, sizeof(osq_exits));
	return true;
}

/* -------------------------------------------------------------------- Linux's node */

static bool leave_at_once(void)
{
	return true;
}

static bool q_joins(void)
{
	play_nodes[q].prev = &play_nodes[me];
	queue_play.tail = encode_cpu((s32)q);
	play_nodes[me].next = &play_nodes[q];
	return true;
}

static bool p_unlocks(void)
{
	play_nodes[p].next = NULL;
	play_nodes[me].locked = 1;
	return true;
}

static bool q_takes_the_place_of_p(void)
{
	play_nodes[p].next = NULL;
	play_nodes[me].prev = &play_nodes[q];
	play_nodes[q].next = &play_nodes[me];
	return true;
}

static bool play(bool (*s)(void))
{
	bool got;

	memset(&play_nodes[p], 0, 2 * sizeof(*play_nodes));
	play_nodes[p].cpu = encode_cpu((s32)p);
	play_nodes[q].cpu = encode_cpu((s32)q);
	queue_play.tail = encode_cpu((s32)p);
	script = s;
	osq_count_exits = true;
	got = osq_lock_play();
	osq_count_exits = false;
	return got;
}

TEST(osq, unqueue_exits, "each exit of the unqueue path leaves the queue as it should", 0)
{
	if (!set_the_stage(t))
		return;
	check(t, !play(leave_at_once) && queue_play.tail == encode_cpu((s32)p) &&
		      !play_nodes[p].next && osq_exits.last == 1,
	      "step B: the last waiter did not move the tail back");
	check(t, asked == p, "the question was about processor %lld, not %u", (long long)asked, p);
	check(t, !play(q_joins) && queue_play.tail == encode_cpu((s32)q) &&
		      play_nodes[p].next == &play_nodes[q] && play_nodes[q].prev == &play_nodes[p] &&
		      osq_exits.relinked == 1,
	      "step C: neighbours do not know each other");
	check(t, play(p_unlocks) && osq_exits.locked_late == 1,
	      "step A: a lock that had been handed over was refused");
	osq_unlock_play();
	check(t, !play(q_takes_the_place_of_p) && osq_exits.step_a_retry == 1 &&
		      !play_nodes[q].next && queue_play.tail == encode_cpu((s32)q),
	      "step A: a changed predecessor was not found");
}

/* -------------------------------------------------------------------- the merged node */

static bool q_joins_merged(void)
{
	play_merged[q].prev_cpu = encode_cpu((s32)me);
	queue_play_merged.tail = encode_cpu((s32)q);
	play_merged[me].next = &play_merged[q];
	return true;
}

static bool p_unlocks_merged(void)
{
	play_merged[p].next = NULL;
	play_merged[me].prev_cpu = OSQ_UNLOCKED_VAL;
	return true;
}

static bool q_takes_the_place_of_p_merged(void)
{
	play_merged[p].next = NULL;
	play_merged[me].prev_cpu = encode_cpu((s32)q);
	play_merged[q].next = &play_merged[me];
	return true;
}

static bool play_with_merged(bool (*s)(void))
{
	bool got;

	memset(&play_merged[p], 0, 2 * sizeof(*play_merged));
	queue_play_merged.tail = encode_cpu((s32)p);
	script = s;
	osq_count_exits = true;
	got = osq_lock_play_merged();
	osq_count_exits = false;
	return got;
}

TEST(osq, unqueue_exits_merged, "the same with hand-off and predecessor in one word", 0)
{
	if (!set_the_stage(t))
		return;
	check(t, !play_with_merged(leave_at_once) &&
		      queue_play_merged.tail == encode_cpu((s32)p) && !play_merged[p].next &&
		      osq_exits.last == 1 && asked == p,
	      "step B: the last waiter did not move the tail back");
	check(t, !play_with_merged(q_joins_merged) &&
		      play_merged[p].next == &play_merged[q] &&
		      play_merged[q].prev_cpu == encode_cpu((s32)p) && osq_exits.relinked == 1,
	      "step C: neighbours do not know each other");
	check(t, play_with_merged(p_unlocks_merged) && osq_exits.locked_late == 1,
	      "step A: a lock that had been handed over was refused");
	osq_unlock_play_merged();
	check(t, !play_with_merged(q_takes_the_place_of_p_merged) &&
		      osq_exits.step_a_retry == 1 && !play_merged[q].next,
	      "step A: a changed predecessor was not found");
}

/* -------------------------------------------------------------------- the CLH queue */

/* Node numbers are processors' here: nothing has been taken over yet. */
static bool q_joins_clh(void)
{
	play_clh[q].word = encode_cpu((s32)q);
	queue_play_clh.tail = (s32)q;
	return true;
}

static void q_moves_on(void)
{
	play_clh[me].word = OSQ_CLH_SEEN;
}

static bool p_leaves_for_q(void)
{
	play_clh[p].word = ~(s32)q;
	play_clh[q].word = encode_cpu((s32)q);
	script = leave_at_once;
	return false;
}

static bool play_with_clh(bool (*s)(void), void (*at_relax)(void))
{
	bool got;

	play_mine[me].node = (s32)me;
	play_clh[p].word = encode_cpu((s32)p);
	queue_play_clh.tail = (s32)p;
	script = s;
	relaxing = NULL;
	osq_count_exits = true;
	relaxing = at_relax;
	got = osq_lock_play_clh();
	osq_count_exits = false;
	return got;
}

TEST(osq, unqueue_exits_clh, "the same in the queue whose waiters poll their predecessor", 0)
{
	if (!set_the_stage(t))
		return;
	check(t, !play_with_clh(leave_at_once, NULL) && queue_play_clh.tail == (s32)p &&
		      osq_exits.last == 1 && asked == p,
	      "the last waiter did not move the tail back");
	check(t, !play_with_clh(q_joins_clh, q_moves_on) && queue_play_clh.tail == (s32)q &&
		      osq_exits.relinked == 1,
	      "the successor was not sent to the predecessor");
	check(t, !play_with_clh(p_leaves_for_q, NULL) && play_clh[p].word == OSQ_CLH_SEEN &&
		      asked == q && queue_play_clh.tail == (s32)q && osq_exits.step_a_retry == 1,
	      "a predecessor that left was not followed");
	play_clh[p].word = OSQ_UNLOCKED_VAL;
	queue_play_clh.tail = (s32)p;
	check(t, osq_lock_play_clh() && play_mine[me].pred == ~(s32)p,
	      "a free lock was not taken");
	osq_unlock_play_clh();
	check(t, play_mine[me].node == (s32)me && queue_play_clh.tail == ~(s32)p,
	      "the tail does not say free, or the own node was not kept");
}
