/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue itself, once, for every form that has Linux's node: included with
 *
 *	OSQ_NAME(x)	   x with the form's suffix
 *	OSQ_PREEMPTED(node) the question of the spin loop
 *
 * The reasons at the barriers are those of kernel/locking/osq_lock.c.
 */

static struct optimistic_spin_queue OSQ_NAME(queue) __aligned(CACHE_LINE);

/* Get a stable node->next, or learn that we are the last: then the tail goes back to `prev`. */
static struct optimistic_spin_node *OSQ_NAME(osq_wait_next)(struct optimistic_spin_node *node,
							    struct optimistic_spin_node *prev)
{
	struct optimistic_spin_queue *lock = &OSQ_NAME(queue);
	s32 curr = encode_cpu(smp_processor_id());
	s32 old = prev ? prev->cpu : OSQ_UNLOCKED_VAL;

	for (;;) {
		if (osq_read(lock->tail) == curr && cmpxchg32(&lock->tail, curr, old) == curr)
			return NULL;
		/* Exchanged, not read: a successor that leaves must not be handed anything while
		 * we hold its address (its step A compares with us). */
		if (osq_read(node->next)) {
			struct optimistic_spin_node *next = atomic_xchg(&node->next, NULL);

			if (next)
				return next;
		}
		cpu_relax();
	}
}

/* Poll until the lock is handed over (true) or there is a reason to leave (false). */
static __always_inline bool OSQ_NAME(spin_on_owner)(struct optimistic_spin_node *node)
{
	for (;;) {
		if (osq_read(node->locked))
			return true;
		if (need_resched() || OSQ_PREEMPTED(node))
			return false;
		cpu_relax();
	}
}

static bool OSQ_NAME(unqueue)(struct optimistic_spin_node *node, struct optimistic_spin_node *prev)
{
	struct optimistic_spin_node *next;

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
	next = OSQ_NAME(osq_wait_next)(node, prev);
	if (!next) {
		OSQ_COUNT(last);
		return false;
	}
	/* Step C: take ourselves out between prev and next. */
	osq_write(next->prev, prev);
	osq_write(prev->next, next);
	OSQ_COUNT(relinked);
	return false;
}

static bool OSQ_NAME(osq_lock)(void)
{
	struct optimistic_spin_node *node = this_node(), *prev;
	s32 curr = encode_cpu(smp_processor_id());
	s32 old;

	osq_plain(node->locked, 0);
	osq_plain(node->next, NULL);
	osq_plain(node->cpu, curr);
	/* Full barrier: our node is whole before others can find it. */
	old = atomic_xchg(&OSQ_NAME(queue).tail, curr);
	if (old == OSQ_UNLOCKED_VAL)
		return true;
	prev = decode_cpu(old);
#ifndef OSQ_MUTANT_PUBLISH_EARLY
	osq_plain(node->prev, prev);
	/* node->prev before prev->next: who finds us through prev->next may leave and write our
	 * node->prev in its step C; our own store must not come after that. */
	smp_wmb();
	osq_write(prev->next, node);
#else
	osq_write(prev->next, node);
	osq_plain(node->prev, prev);
#endif
	if (OSQ_NAME(spin_on_owner)(node))
		return true;
	return OSQ_NAME(unqueue)(node, prev);
}

static void OSQ_NAME(osq_unlock)(void)
{
	struct optimistic_spin_queue *lock = &OSQ_NAME(queue);
	struct optimistic_spin_node *node, *next;
	s32 curr = encode_cpu(smp_processor_id());

	if (likely(cmpxchg32(&lock->tail, curr, OSQ_UNLOCKED_VAL) == curr))
		return;
	node = this_node();
	next = atomic_xchg(&node->next, NULL);
	if (!next)
		next = OSQ_NAME(osq_wait_next)(node, NULL);
	if (next)
		OSQ_HAND_OFF(next);
}

static bool OSQ_NAME(idle)(void)
{
	return osq_read(OSQ_NAME(queue).tail) == OSQ_UNLOCKED_VAL;
}

/* The same loop body, a given number of times: what one spin costs. */
static void OSQ_NAME(spin)(void *arg, unsigned n)
{
	struct optimistic_spin_node *node = arg;

	while (n--) {
		if (osq_read(node->locked))
			return;
		if (need_resched() || OSQ_PREEMPTED(node))
			return;
		cpu_relax();
	}
}

#undef OSQ_NAME
#undef OSQ_PREEMPTED
