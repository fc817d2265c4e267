/* SPDX-License-Identifier: GPL-2.0-only */
/* Plain locks to measure the queue against: nobody leaves, nobody asks. */
#include "osq.h"
#include "atomic.h"
#include "../platform.h"

static s32 ttas_word __aligned(CACHE_LINE);

static bool ttas_acquire(void)
{
	for (;;) {
		if (!READ_ONCE(ttas_word) && !atomic_xchg(&ttas_word, 1))
			return true;
		cpu_relax();
	}
}

static void ttas_release(void)
{
	smp_store_release(&ttas_word, 0);
}

static bool ttas_idle(void)
{
	return !READ_ONCE(ttas_word);
}

static struct {
	u32 next, owner;
} ticket __aligned(CACHE_LINE);

static bool ticket_acquire(void)
{
	u32 mine = __atomic_fetch_add(&ticket.next, 1, __ATOMIC_ACQUIRE);

	while (smp_load_acquire(&ticket.owner) != mine)
		cpu_relax();
	return true;
}

static void ticket_release(void)
{
	smp_store_release(&ticket.owner, ticket.owner + 1);
}

static bool ticket_idle(void)
{
	return READ_ONCE(ticket.next) == READ_ONCE(ticket.owner);
}

static u32 ticket_tail(void)
{
	return READ_ONCE(ticket.next);
}

struct mcs_node {
	struct mcs_node *next;
	s32 locked;
} __aligned(CACHE_LINE);

static struct mcs_node *mcs_nodes;
static struct mcs_node *mcs_last __aligned(CACHE_LINE);

static bool mcs_acquire(void)
{
	struct mcs_node *node = mcs_nodes + smp_processor_id(), *prev;

	node->next = NULL;
	node->locked = 0;
	prev = atomic_xchg(&mcs_last, node);
	if (!prev)
		return true;
	WRITE_ONCE(prev->next, node);
	while (!smp_load_acquire(&node->locked))
		cpu_relax();
	return true;
}

static void mcs_release(void)
{
	struct mcs_node *node = mcs_nodes + smp_processor_id(), *next = READ_ONCE(node->next);

	if (!next) {
		if (cmpxchg_ptr(&mcs_last, node, NULL) == node)
			return;
		while (!(next = READ_ONCE(node->next)))
			cpu_relax();
	}
	smp_store_release(&next->locked, 1);
}

static bool mcs_idle(void)
{
	return !READ_ONCE(mcs_last);
}

static u32 mcs_tail(void)
{
	struct mcs_node *last = READ_ONCE(mcs_last);

	return last ? (u32)(last - mcs_nodes) + 1 : 0;
}

int yardsticks_init(void)
{
	mcs_nodes = platform_alloc(platform_cpus() * sizeof(*mcs_nodes));
	return mcs_nodes ? 0 : -ENOMEM;
}

const struct lock_variant lock_mcs = {
	.name = "mcs",
	.what = "yardstick: plain MCS",
	.fifo = true,
	.lock = mcs_acquire,
	.unlock = mcs_release,
	.idle = mcs_idle,
	.tail = mcs_tail,
};
const struct lock_variant lock_ticket = {
	.name = "ticket",
	.what = "yardstick: ticket lock",
	.fifo = true,
	.lock = ticket_acquire,
	.unlock = ticket_release,
	.idle = ticket_idle,
	.tail = ticket_tail,
	.anonymous = true,
};
const struct lock_variant lock_ttas = {
	.name = "ttas",
	.what = "yardstick: test-and-test-and-set",
	.lock = ttas_acquire,
	.unlock = ttas_release,
	.idle = ttas_idle,
};
