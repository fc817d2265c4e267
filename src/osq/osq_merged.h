/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue with the small node {next, prev_cpu}: prev_cpu is the predecessor's number while we
 * wait, and 0 says that the lock is ours. The spin loop asks about the very value that it polls, so
 * no line of another processor is read. Included like osq_lock.h, with OSQ_NAME, OSQ_NODE,
 * OSQ_NODES and OSQ_PREEMPTED_CPU(cpu).
 *
 * What Linux's node keeps apart is one word here, so two orders matter more: prev_cpu is written
 * before the successor is published, both on entering and in step C. Whoever publishes first may see
 * his late store wipe out the hand-off itself.
 */

static struct optimistic_spin_queue OSQ_NAME(queue) __aligned(CACHE_LINE);

static __always_inline struct OSQ_NODE *OSQ_NAME(decode_cpu)(s32 encoded)
{
	return OSQ_NODES + encoded - OSQ_CPU_BASE;
}

/* As in osq_lock.h. */
static struct OSQ_NODE *OSQ_NAME(osq_wait_next)(struct OSQ_NODE *node, s32 old)
{
	struct optimistic_spin_queue *lock = &OSQ_NAME(queue);
	s32 curr = encode_cpu(smp_processor_id());

	for (;;) {
		if (osq_read(lock->tail) == curr && cmpxchg32(&lock->tail, curr, old) == curr)
			return NULL;
		if (osq_read(node->next)) {
			struct OSQ_NODE *next = atomic_xchg(&node->next, NULL);

			if (next)
				return next;
		}
		cpu_relax();
	}
}

/* 0 when the lock is ours, else the predecessor's number and a reason to leave. */
static __always_inline s32 OSQ_NAME(spin_on_owner)(struct OSQ_NODE *node)
{
	for (;;) {
		s32 prev_cpu = osq_read(node->prev_cpu);

		if (prev_cpu == OSQ_UNLOCKED_VAL) {
			smp_acquire__after_ctrl_dep();
			return prev_cpu;
		}
		if (need_resched() || OSQ_PREEMPTED_CPU(prev_cpu))
			return prev_cpu;
		cpu_relax();
	}
}

static bool OSQ_NAME(unqueue)(struct OSQ_NODE *node, s32 prev_cpu)
{
	struct OSQ_NODE *prev, *next;

	/* Step A. */
	for (;;) {
		prev = OSQ_NAME(decode_cpu)(prev_cpu);
		if (osq_read(prev->next) == node && cmpxchg_ptr(&prev->next, node, NULL) == node)
			break;
		prev_cpu = smp_load_acquire(&node->prev_cpu);
		if (prev_cpu == OSQ_UNLOCKED_VAL) {
			OSQ_COUNT(locked_late);
			return true;
		}
		OSQ_COUNT(step_a_retry);
		cpu_relax();
	}
	/* Step B. */
	next = OSQ_NAME(osq_wait_next)(node, prev_cpu);
	if (!next) {
		OSQ_COUNT(last);
		return false;
	}
	/* Step C. Release: once prev knows next it may hand over to it in the word just written. */
	osq_write(next->prev_cpu, prev_cpu);
	smp_store_release(&prev->next, next);
	OSQ_COUNT(relinked);
	return false;
}

static bool OSQ_NAME(osq_lock)(void)
{
	s32 curr = encode_cpu(smp_processor_id());
	struct OSQ_NODE *node = OSQ_NAME(decode_cpu)(curr), *prev;
	s32 prev_cpu;

	/* node->next is NULL: whoever leaves, and whoever unlocks, takes it out by exchange. The
	 * full barrier keeps the previous use of the node on its own side. */
	prev_cpu = atomic_xchg(&OSQ_NAME(queue).tail, curr);
	if (prev_cpu == OSQ_UNLOCKED_VAL)
		return true;
	prev = OSQ_NAME(decode_cpu)(prev_cpu);
	osq_plain(node->prev_cpu, prev_cpu);
	/* Release: prev may hand over as soon as it sees us, and that must come last. */
	smp_store_release(&prev->next, node);
	prev_cpu = OSQ_NAME(spin_on_owner)(node);
	if (prev_cpu == OSQ_UNLOCKED_VAL)
		return true;
	return OSQ_NAME(unqueue)(node, prev_cpu);
}

static void OSQ_NAME(osq_unlock)(void)
{
	struct optimistic_spin_queue *lock = &OSQ_NAME(queue);
	s32 curr = encode_cpu(smp_processor_id());
	struct OSQ_NODE *node, *next;

	if (likely(cmpxchg32(&lock->tail, curr, OSQ_UNLOCKED_VAL) == curr))
		return;
	node = OSQ_NAME(decode_cpu)(curr);
	next = atomic_xchg(&node->next, NULL);
	if (!next)
		next = OSQ_NAME(osq_wait_next)(node, OSQ_UNLOCKED_VAL);
	if (next)
		OSQ_HAND_OFF(next->prev_cpu, OSQ_UNLOCKED_VAL);
}

static __cold bool __unused OSQ_NAME(idle)(void)
{
	return osq_read(OSQ_NAME(queue).tail) == OSQ_UNLOCKED_VAL;
}

static __cold bool __unused OSQ_NAME(node_idle)(u32 cpu)
{
	return !osq_read(OSQ_NODES[cpu].next);
}

static __cold u32 __unused OSQ_NAME(tail)(void)
{
	return (u32)osq_read(OSQ_NAME(queue).tail);
}

#ifdef OSQ_PROBES
/* As in osq_lock.h. */

static __cold void OSQ_NAME(play_waiting)(void)
{
	OSQ_NODES[smp_processor_id()].prev_cpu = encode_cpu((s32)OSQ_FAKE);
}

static noinline void OSQ_NAME(spin)(unsigned n)
{
	struct OSQ_NODE *node = OSQ_NODES + smp_processor_id();

	while (n--) {
		s32 prev_cpu = osq_read(node->prev_cpu);

		if (prev_cpu == OSQ_UNLOCKED_VAL)
			return;
		if (need_resched() || OSQ_PREEMPTED_CPU(prev_cpu))
			return;
		cpu_relax();
	}
}

static __cold void OSQ_NAME(play_holding)(void)
{
	OSQ_NODES[OSQ_FAKE].next = NULL;
	OSQ_NODES[OSQ_FAKE].prev_cpu = encode_cpu(smp_processor_id());
	OSQ_NODES[smp_processor_id()].next = OSQ_NODES + OSQ_FAKE;
	OSQ_NAME(queue).tail = encode_cpu((s32)OSQ_FAKE);
}

static noinline bool OSQ_NAME(hand_off)(void)
{
	OSQ_NAME(osq_unlock)();
	return OSQ_NAME(spin_on_owner)(OSQ_NODES + OSQ_FAKE) == OSQ_UNLOCKED_VAL;
}

static __cold void OSQ_NAME(play_end)(void)
{
	OSQ_NODES[smp_processor_id()].next = NULL;
	OSQ_NAME(queue).tail = OSQ_UNLOCKED_VAL;
}
#endif

#undef OSQ_NAME
#undef OSQ_NODE
#undef OSQ_NODES
#undef OSQ_PREEMPTED_CPU
