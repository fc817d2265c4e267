/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The optimistic spin queue of Linux (kernel/locking/osq_lock.c): an MCS-like queue whose waiters
 * may leave, one node for each processor, and in its spin loop the question that this room is
 * about: vcpu_is_preempted(node_cpu(node->prev)). Several forms of that question stand side by
 * side in one table, together with plain locks as yardsticks.
 *
 * A processor waits in at most one queue at a time, with interrupts off.
 */
#ifndef MCSPIN_OSQ_OSQ_H
#define MCSPIN_OSQ_OSQ_H

#include "../alt/alternative.h"
#include "../alt/jump_label.h"

struct optimistic_spin_node {
	struct optimistic_spin_node *next, *prev;
	s32 locked; /* 1: the lock was handed to us */
	s32 cpu;    /* number + 1 */
} __aligned(CACHE_LINE);
static_assert(offsetof(struct optimistic_spin_node, cpu) == 0x14, "Linux's layout: cpu at 0x14");

struct optimistic_spin_queue {
	s32 tail; /* number + 1 of the last processor; 0: unlocked */
};
#define OSQ_UNLOCKED_VAL 0

/* Set up the nodes of all processors. -ENOMEM. Once, before any lock is used. */
int osq_init(void);

/* ------------------------------------------------------------------ vcpu_is_preempted */

/* The installed function. Called with every register but rax preserved, as Linux's callee-save
 * thunks are; asm/pv.S holds the ones there are. */
typedef void (*pv_fn)(void);
extern pv_fn pv_vcpu_is_preempted;
/* asm/pv.S: false; reads KVM's byte of processor rdi; what tests inject. */
void native_vcpu_is_preempted(void);
void kvm_vcpu_is_preempted(void);
void injected_vcpu_is_preempted(void);
/* What injected_vcpu_is_preempted answers, by processor: not 0 is preempted. */
extern u8 *injected_preempted;
/* KVM's steal-time pages, 64 bytes a processor; the byte at 16 says preempted. */
extern u8 *kvm_steal_time;

/* The call site. Native: XOR, and the argument is still computed. */
static __always_inline bool vcpu_is_preempted(long cpu)
{
	unsigned long ret;

	__asm__ volatile(ALT_SITE(SITE_VCPU_IS_PREEMPTED) ALTERNATIVE_2(
				 "call *pv_vcpu_is_preempted(%%rip)", "call BUG_func",
				 ALT_DIRECT_CALL(X86_FEATURE_ALWAYS), "xorl %%eax, %%eax",
				 ALT_NOT(X86_FEATURE_VCPUPREEMPT))
			 : "=a"(ret)
			 : "D"(cpu)
			 : "memory", "cc");
	return ret;
}

/* True by default, right when nobody touches it; switched off where the native function stays. */
DECLARE_STATIC_KEY_TRUE(vcpu_has_preemption);
/* Choose the back end and set the key. After jump_label_init(). */
void osq_decide(void);

/* ------------------------------------------------------------------ the table */

struct lock_variant {
	const char *name;
	const char *what; /* one clause */
	/* Acquire; false: the waiter left the queue (only osq forms). */
	bool (*lock)(void);
	void (*unlock)(void);
	/* Everything idle: tail, nodes. */
	bool (*idle)(void);
	bool osq;
	/* The spin loop alone, `n` rounds on the caller's prepared node; NULL for yardsticks. */
	void (*spin)(void *node, unsigned n);
};
extern const struct lock_variant lock_variants[];
extern const unsigned lock_variant_count;
const struct lock_variant *lock_variant_find(const char *name);

/* Exits of the unqueue path, counted over all osq forms; for tests. */
struct osq_exits {
	u64 locked_late; /* step A found that it had been handed the lock */
	u64 step_a_retry;
	u64 last;	 /* step B: we were the last, tail moved back */
	u64 relinked;	 /* step C */
};
extern struct osq_exits osq_exits;
extern bool osq_count_exits; /* off in timed runs */

#endif
