/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue of kernel/locking/osq_lock.c, once, for every form that has Linux's kind of node (next,
 * prev, locked, cpu). Included with
 *
 *	OSQ_NAME(x)		x with the form's suffix
 *	OSQ_NODE		the node's struct tag
 *	OSQ_NODES		its array, by processor number
 *	OSQ_PREEMPTED(node)	the question of the spin loop
 *	OSQ_SET_CPU(node, cpu)	how the own number gets into the own node
 *	OSQ_SET_PREV(node, p)	what goes with node->prev = p before it is published, and after
 *	OSQ_MOVE_PREV(next, p)	what goes with next->prev = p in step C
 *
 * and reasons at the barriers that are those of the kernel's source. Every access to what another
 * processor may see goes through atomic.h.
 */

static struct optimistic_spin_queue OSQ_NAME(queue) __aligned(CACHE_LINE);

static __always_inline struct OSQ_NODE *OSQ_NAME(decode_cpu)(s32 encoded)
{
	return OSQ_NODES + encoded - OSQ_CPU_BASE;
}

/* Get a stable node->next, or learn that we are the last: then the tail goes back to `old`. */
static struct OSQ_NODE *OSQ_NAME(osq_wait_next)(struct OSQ_NODE *node, s32 old)
{
	struct optimistic_spin_queue *lock = &OSQ_NAME(queue);
	s32 curr = encode_cpu(smp_processor_id());

	for (;;) {
		if (osq_read(lock->tail) == curr && cmpxchg32(&lock->tail, curr, old) == curr)
			return NULL;
		/* Exchanged, not read: a successor that leaves must not be handed anything while
		 * we hold its address (its step A compares with us). */
		if (osq_read(node->next)) {
			struct OSQ_NODE *next = atomic_xchg(&node->next, NULL);

			if (next)
				return next;
		}
		cpu_relax();
	}
}

/* Poll until the lock is handed over (true) or there is a reason to leave (false). */
static __always_inline bool OSQ_NAME(spin_on_owner)(struct OSQ_NODE *node)
{
	for (;;) {
		if (osq_read(node->locked)) {
			/* Linux leaves this read relaxed, because its mutex orders again. Here the
			 * queue itself guards data. */
			smp_acquire__after_ctrl_dep();
			return true;
		}
		if (need_resched() || OSQ_PREEMPTED(node))
			return false;
		cpu_relax();
	}
}

static bool OSQ_NAME(unqueue)(struct OSQ_NODE *node, struct OSQ_NODE *prev)
{
	struct OSQ_NODE *next;

	/* Step A: undo prev->next. If prev has taken it already, the lock is on its way to us; if
	 * prev itself leaves, node->prev will change. */
	for (;;) {
		if (osq_read(prev->next) == node && cmpxchg_ptr(&prev->next, node, NULL) == node)
			break;
		/* Acquire: what the previous holder wrote must be seen. */
		if (smp_load_acquire(&node->locked)) {
			OSQ_COUNT(locked_late);
			return true;
		}
		OSQ_COUNT(step_a_retry);
		cpu_relax();
		prev = osq_read(node->prev);
	}
	/* Step B: stabilise our own next, or move the tail back. */
	next = OSQ_NAME(osq_wait_next)(node, osq_read(prev->cpu));
	if (!next) {
		OSQ_COUNT(last);
		return false;
	}
	/* Step C: take ourselves out between prev and next. */
	OSQ_MOVE_PREV(next, prev);
	osq_write(next->prev, prev);
	osq_write(prev->next, next);
	OSQ_COUNT(relinked);
	return false;
}

static bool OSQ_NAME(osq_lock)(void)
{
	s32 curr = encode_cpu(smp_processor_id());
	struct OSQ_NODE *node = OSQ_NAME(decode_cpu)(curr), *prev;
	s32 old;

	osq_plain(node->locked, 0);
	osq_plain(node->next, NULL);
	OSQ_SET_CPU(node, curr);
	/* Full barrier: our node is whole before others can find it. */
	old = atomic_xchg(&OSQ_NAME(queue).tail, curr);
	if (old == OSQ_UNLOCKED_VAL)
		return true;
	prev = OSQ_NAME(decode_cpu)(old);
	OSQ_SET_PREV(node, prev, old);
	osq_plain(node->prev, prev);
	/* node->prev before prev->next: who finds us through prev->next may leave and write our
	 * node->prev in its step C; our own store must not come after that. */
	smp_wmb();
	osq_write(prev->next, node);
	if (OSQ_NAME(spin_on_owner)(node))
		return true;
	return OSQ_NAME(unqueue)(node, prev);
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
		OSQ_HAND_OFF(next->locked, 1);
}

static __cold bool __unused OSQ_NAME(idle)(void)
{
	return osq_read(OSQ_NAME(queue).tail) == OSQ_UNLOCKED_VAL;
}

/* Nodes hold nothing of a queue that is empty. */
static __cold bool __unused OSQ_NAME(node_idle)(u32 cpu)
{
	return !osq_read(OSQ_NODES[cpu].next);
}

static __cold u32 __unused OSQ_NAME(tail)(void)
{
	return (u32)osq_read(OSQ_NAME(queue).tail);
}

#ifdef OSQ_PROBES
/* What can be counted on one processor: the others are played by the node OSQ_FAKE. */

static __cold void OSQ_NAME(play_waiting)(void)
{
	struct OSQ_NODE *node = OSQ_NODES + smp_processor_id(), *prev = OSQ_NODES + OSQ_FAKE;

	node->locked = 0;
	prev->cpu = encode_cpu((s32)OSQ_FAKE);
	OSQ_SET_PREV(node, prev, prev->cpu);
	node->prev = prev;
}

/* `n` rounds of the spin loop, nothing coming. */
static noinline void OSQ_NAME(spin)(unsigned n)
{
	struct OSQ_NODE *node = OSQ_NODES + smp_processor_id();

	while (n--) {
		if (osq_read(node->locked))
			return;
		if (need_resched() || OSQ_PREEMPTED(node))
			return;
		cpu_relax();
	}
}

/* We hold the lock, OSQ_FAKE waits behind us. */
static __cold void OSQ_NAME(play_holding)(void)
{
	struct OSQ_NODE *node = OSQ_NODES + smp_processor_id(), *next = OSQ_NODES + OSQ_FAKE;

	next->locked = 0;
	next->next = NULL;
	next->prev = node;
	next->cpu = encode_cpu((s32)OSQ_FAKE);
	OSQ_SET_PREV(next, node, encode_cpu(smp_processor_id()));
	node->next = next;
	OSQ_NAME(queue).tail = encode_cpu((s32)OSQ_FAKE);
}

/* Our unlock, and the waiter's look that finds it. */
static noinline bool OSQ_NAME(hand_off)(void)
{
	OSQ_NAME(osq_unlock)();
	return OSQ_NAME(spin_on_owner)(OSQ_NODES + OSQ_FAKE);
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
#undef OSQ_PREEMPTED
#undef OSQ_SET_CPU
#undef OSQ_SET_PREV
#undef OSQ_MOVE_PREV
