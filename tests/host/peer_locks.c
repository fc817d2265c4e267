/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks of others in mcspin's own contests: ck's MCS lock, the mark to reach, and the kernel's
 * algorithm once more, written straight down with the compiler's builtins and without mcspin's
 * templates, to show that `linux` carries no handicap.
 */
#include <ck_spinlock.h>

#include "../../src/cpu/percpu.h"
#include "../../src/osq/osq.h"

#define MAX_PEERS 256 /* processors */

static ck_spinlock_mcs_t ck_queue __attribute__((aligned(64)));
static struct {
	ck_spinlock_mcs_context_t context;
} __attribute__((aligned(64))) ck_nodes[MAX_PEERS];

static bool ck_lock(void)
{
	ck_spinlock_mcs_lock(&ck_queue, &ck_nodes[smp_processor_id()].context);
	return true;
}

static void ck_unlock(void)
{
	ck_spinlock_mcs_unlock(&ck_queue, &ck_nodes[smp_processor_id()].context);
}

static bool ck_idle(void)
{
	return !ck_spinlock_mcs_locked(&ck_queue);
}

/* -------------------------------------------------------------------- the kernel's, straight */

static struct straight_node {
	struct straight_node *next, *prev;
	int locked, cpu;
} __attribute__((aligned(64))) straight_nodes[MAX_PEERS];
static int straight_tail __attribute__((aligned(64)));

static bool straight_lock(void)
{
	int curr = (int)smp_processor_id() + 1;
	struct straight_node *node = &straight_nodes[curr - 1], *prev;
	int old;

	node->locked = 0;
	node->next = NULL;
	node->cpu = curr;
	old = __atomic_exchange_n(&straight_tail, curr, __ATOMIC_SEQ_CST);
	if (!old)
		return true;
	prev = &straight_nodes[old - 1];
	node->prev = prev;
	__atomic_store_n(&prev->next, node, __ATOMIC_RELEASE);
	/* Nobody is told to leave here, but the loop reads what the kernel's reads. */
	while (!__atomic_load_n(&node->locked, __ATOMIC_ACQUIRE)) {
		struct straight_node *p = *(struct straight_node *volatile *)&node->prev;

		__asm__ volatile("" ::"r"(this_cpu()->need_resched), "r"((long)p->cpu - 1));
		__builtin_ia32_pause();
	}
	return true;
}

static void straight_unlock(void)
{
	int curr = (int)smp_processor_id() + 1, expected = curr;
	struct straight_node *node = &straight_nodes[curr - 1], *next;

	if (__atomic_compare_exchange_n(&straight_tail, &expected, 0, false, __ATOMIC_SEQ_CST,
					__ATOMIC_RELAXED))
		return;
	next = __atomic_exchange_n(&node->next, NULL, __ATOMIC_SEQ_CST);
	while (!next) {
		__builtin_ia32_pause();
		next = __atomic_exchange_n(&node->next, NULL, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&next->locked, 1, __ATOMIC_RELAXED);
}

static bool straight_idle(void)
{
	return !__atomic_load_n(&straight_tail, __ATOMIC_RELAXED);
}

static const struct lock_variant peers[] = {
	{.name = "ck_mcs", .what = "ck's MCS lock", .fifo = true, .lock = ck_lock,
	 .unlock = ck_unlock, .idle = ck_idle},
	{.name = "straight", .what = "the kernel's algorithm, straight", .fifo = true,
	 .lock = straight_lock, .unlock = straight_unlock, .idle = straight_idle},
};

__attribute__((constructor)) static void add_peers(void)
{
	lock_peers = peers;
	lock_peer_count = ARRAY_SIZE(peers);
}
