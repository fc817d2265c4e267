/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The optimistic spin queue of Linux (kernel/locking/osq_lock.c): an MCS-like queue whose waiters
 * may leave, one node for each processor, and in its spin loop the question that this room is
 * about: vcpu_is_preempted(node_cpu(node->prev)). The cures that were proposed for what the
 * question costs stand side by side in one table, together with plain locks as yardsticks.
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

/* The number on a line of its own, written only when it differs (Zeng Heng, 2023). */
struct osq_padded_node {
	struct osq_padded_node *next, *prev;
	s32 locked;
	s32 cpu __aligned(CACHE_LINE);
} __aligned(CACHE_LINE);
static_assert(offsetof(struct osq_padded_node, cpu) == CACHE_LINE, "a line of its own");

/* The predecessor's number kept in the own node (Guo Hui, 2023). */
struct osq_prev_cpu_node {
	struct osq_prev_cpu_node *next, *prev;
	s32 locked;
	s32 cpu;
	s32 prev_cpu;
} __aligned(CACHE_LINE);

/* Hand-off and predecessor in one word (David Laight, 2026). */
struct osq_merged_node {
	struct osq_merged_node *next;
	s32 prev_cpu; /* number + 1; 0: the lock is ours */
} __aligned(CACHE_LINE);

/* mcspin's own, osq_clh.h. */
struct osq_clh_node {
	s32 word;
} __aligned(CACHE_LINE);
struct osq_clh_mine {
	s32 node; /* index of the node that we own */
	s32 pred; /* of the one that becomes ours; ~index when we did not have to wait for it */
} __aligned(CACHE_LINE);
#define OSQ_CLH_SEEN (-0x7fffffff - 1)

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
/* asm/pv.S: false; KVM's byte of processor rdi; Hyper-V's false; Xen's run state of processor rdi;
 * what tests inject. */
void native_vcpu_is_preempted(void);
void kvm_vcpu_is_preempted(void);
void hv_vcpu_is_preempted(void);
void xen_vcpu_is_preempted(void);
void injected_vcpu_is_preempted(void);
/* What injected_vcpu_is_preempted answers, a byte by processor: not 0 is preempted. */
extern u8 *injected_preempted;
/* KVM's steal-time records, 64 bytes a processor; the byte at 16 says preempted. */
extern u8 *kvm_steal_time;
/* Xen's run state areas, 64 bytes a processor; the u32 at 0 is 0 while it runs. */
extern u8 *xen_runstate;

/* One of the functions above, called with its own convention. Any processor. */
static __always_inline bool pv_call(pv_fn fn, long cpu)
{
	unsigned long ret;

	__asm__ volatile("call *%1" : "=a"(ret) : "r"(fn), "D"(cpu) : "memory", "cc");
	return (u8)ret;
}

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
	return (u8)ret;
}

/* True by default, right when nobody touches it; switched off where the native function stays. */
DECLARE_STATIC_KEY_TRUE(vcpu_has_preemption);

struct machine;
/* What vcpu=native and vcpu=injected overrule. Before the features are frozen. */
void osq_overrule(struct machine *m);
/* Choose the back end. After the features are frozen, before alt_patch_all(): a direct call takes
 * its target from the pointer. */
void osq_choose_backend(void);
/* Set the key and tell. After jump_label_init(). */
void osq_decide(void);
/* Register what the hypervisor needs on every processor. Processors must run. */
void osq_pv_register(void);
/* On each processor before it goes back to the firmware: the hypervisor writes to mcspin's memory
 * until then. */
void osq_pv_unregister(void);

/* ------------------------------------------------------------------ the table */

/* For counting on one processor: the others are played (osq_lock.h, OSQ_PROBES). */
struct lock_probe {
	void (*play_waiting)(void);
	void (*spin)(unsigned n);
	void (*play_holding)(void);
	bool (*hand_off)(void);
	void (*play_end)(void);
};

struct lock_variant {
	const char *name;
	const char *what; /* one clause */
	bool osq;	  /* its waiters may leave, and it asks vcpu_is_preempted() */
	bool fifo;
	/* Acquire; false: the waiter has left the queue (osq forms only). */
	bool (*lock)(void);
	void (*unlock)(void);
	/* Nobody holds it or waits. */
	bool (*idle)(void);
	/* The node of a processor holds nothing; NULL where there are no nodes. */
	bool (*node_idle)(u32 cpu);
	/* Number + 1 of the last processor in the queue, 0: nobody. Changes when somebody joins.
	 * NULL where there is no queue; `anonymous` where it is another number that changes. */
	u32 (*tail)(void);
	bool anonymous;
	const struct lock_probe *probe; /* osq forms only */
};
/* linux first: ratios refer to it. */
extern const struct lock_variant *const lock_variants[];
extern const unsigned lock_variant_count;
/* More of them that a host program may add to its benches (tests/host/peer_locks.c). */
extern const struct lock_variant *lock_peers;
extern unsigned lock_peer_count;
/* Yardsticks, in yardsticks.c. */
extern const struct lock_variant lock_mcs, lock_ticket, lock_ttas;
int yardsticks_init(void);

/* Exits of the unqueue path, counted over all osq forms while osq_count_exits is set. */
struct osq_exits {
	u64 locked_late;  /* step A found that it had been handed the lock */
	u64 step_a_retry; /* the predecessor changed under us */
	u64 last;	  /* step B: we were the last, tail moved back */
	u64 relinked;	  /* step C */
};
extern struct osq_exits osq_exits;
extern bool osq_count_exits; /* off in timed runs */

#endif
