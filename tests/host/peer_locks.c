/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks of others in mcspin's own contests: ck's MCS lock, the mark to reach, and the kernel's
 * algorithm once more, written straight down with the compiler's builtins and without mcspin's
 * templates, to show that `linux` carries no handicap.
 */
#include <ck_spinlock.h>

#include "../../src/cpu/percpu.h"
#include "../../src/bench/bench.h"
#include "../../src/bench/tsc.h"
#include "../../src/cpu/smp.h"
#include "../../src/osq/contest.h"
#include "../../src/report/event.h"
#include "../../src/run/run.h"

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

static u32 ck_tail(void)
{
	ck_spinlock_mcs_t last = __atomic_load_n(&ck_queue, __ATOMIC_RELAXED);

	return last ? (u32)((char *)last - (char *)ck_nodes) / sizeof(ck_nodes[0]) + 1 : 0;
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

static u32 straight_last(void)
{
	return (u32)__atomic_load_n(&straight_tail, __ATOMIC_RELAXED);
}

static bool straight_idle(void)
{
	return !__atomic_load_n(&straight_tail, __ATOMIC_RELAXED);
}

static const struct lock_variant peers[] = {
	{.name = "ck_mcs", .what = "ck's MCS lock", .fifo = true, .lock = ck_lock,
	 .unlock = ck_unlock, .idle = ck_idle, .tail = ck_tail},
	{.name = "straight", .what = "the kernel's algorithm, straight", .fifo = true,
	 .lock = straight_lock, .unlock = straight_unlock, .idle = straight_idle,
	 .tail = straight_last},
};

__attribute__((constructor)) static void add_peers(void)
{
	lock_peers = peers;
	lock_peer_count = ARRAY_SIZE(peers);
}

/* -------------------------------------------------------------------- stress */

#define STRESS_WANTED 5000000ull
#define STRESS_MS     20000 /* for each variant, whatever it has reached */

/* Half of it with waiters that leave, where they can. */
static void stress(const struct lock_variant *v, const u16 *cpus, unsigned n)
{
	u64 start = rdtsc_ordered(), acquired = 0, left = 0;
	char why[160] = "";
	bool clean = true;

	for (unsigned round = 0; acquired < STRESS_WANTED && clean; round++) {
		struct contest c = {.v = v, .cpus = cpus, .n = n, .window = tsc_from_us(50000),
				    .leave = v->osq && round & 1 ? 16 : 0, .order = v->fifo};

		if (rdtsc_ordered() - start > tsc_from_us(STRESS_MS * 1000ull))
			break;
		contest_run(&c);
		clean = contest_clean(&c, why, sizeof(why));
		acquired += c.acquired;
		left += c.aborted;
		event_beacon("stress");
	}
	event_begin("stress");
	event_str("variant", v->name);
	event_u64("cpus", n);
	event_u64("acquired", acquired);
	event_u64("left", left);
	event_bool("clean", clean);
	event_end();
	if (!clean)
		run_worsen(RESULT_FAIL, "stress: %s", why);
	else if (acquired < STRESS_WANTED)
		event_warn("stress: %s had time for %llu of %llu acquisitions only", v->name,
			   (unsigned long long)acquired, (unsigned long long)STRESS_WANTED);
}

BENCH(lock_stress, "five million contended acquisitions of each lock, counted right", NEED_2_CPUS,
      0)
{
	u16 cpus[64];
	unsigned n = contest_cpus(cpus, ARRAY_SIZE(cpus));

	for (unsigned i = 0; i < lock_variant_count; i++)
		stress(lock_variants[i], cpus, n);
}
