/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mcspin's own form: a CLH queue whose waiters may leave. Each waiter polls its *predecessor's* node,
 * so unlock is one plain store into the own node and a hand-off is one line transfer, the least
 * there is; and the predecessor's number lies in the very word that is polled, so the question
 * costs no load at all. Included with
 *
 *	OSQ_NAME(x)	x with the form's suffix
 *	OSQ_NODES	an array of struct osq_clh_node, one more than there are processors
 *	OSQ_MINE	an array of struct osq_clh_mine, by processor number
 *	OSQ_PREEMPTED_CPU(cpu)
 *
 * The word of a node:
 *	0	  released: the successor has the lock
 *	cpu + 1	  its owner holds the lock or waits for it
 *	~index	  its owner has left; go on at node `index` and say so
 *	S32_MIN	  the successor has said so: the leaver may take its node away
 *
 * As in every CLH queue a node is taken over by the successor: whoever got the lock keeps the
 * predecessor's node for its next turn. The queue is never empty.
 *
 * A plain CLH lock that is free costs its next owner two lines, the tail and the released node. So
 * an owner that did not have to wait, and behind whom nobody waits, says in the tail itself that the
 * lock is free: ~index of the node that it found there, and it keeps its own, whose line it has. One
 * that waited expects another behind it, and does not go back to the tail, whose line the other has
 * by now: then there would be two lines in the hand-off instead of one.
 */

/* Index of a node; ~index of one that nobody uses: the lock is free. */
static struct optimistic_spin_queue OSQ_NAME(queue) __aligned(CACHE_LINE);

/*
 * Leave. With nobody behind us the tail goes back to our predecessor. Otherwise the successor must
 * learn whom to watch instead, and until it has acknowledged, our node is still looked at. The
 * successor may leave as well, and then we are the last again.
 */
static bool OSQ_NAME(leave)(s32 mine, s32 pred)
{
	struct optimistic_spin_queue *lock = &OSQ_NAME(queue);
	bool told = false;

	for (;;) {
		if (osq_read(lock->tail) == mine && cmpxchg32(&lock->tail, mine, pred) == mine) {
			OSQ_COUNT(last);
			return false;
		}
		if (!told) {
			smp_store_release(&OSQ_NODES[mine].word, ~pred);
			told = true;
		} else if (smp_load_acquire(&OSQ_NODES[mine].word) == OSQ_CLH_SEEN) {
			OSQ_COUNT(relinked);
			return false;
		}
		cpu_relax();
	}
}

/* Poll the predecessor until it releases (true) or there is a reason to leave (false). `pred`
 * follows those who leave. */
static __always_inline bool OSQ_NAME(spin_on_owner)(s32 *pred)
{
	for (;;) {
		s32 word = osq_read(OSQ_NODES[*pred].word);

		if (word == OSQ_UNLOCKED_VAL) {
			smp_acquire__after_ctrl_dep();
			return true;
		}
		if (unlikely(word < 0)) {
			/* It has left. Its node is its own again after this store. */
			osq_write(OSQ_NODES[*pred].word, OSQ_CLH_SEEN);
			*pred = ~word;
			OSQ_COUNT(step_a_retry);
			continue;
		}
		if (need_resched() || OSQ_PREEMPTED_CPU(word))
			return false;
		cpu_relax();
	}
}

static bool OSQ_NAME(osq_lock)(void)
{
	struct osq_clh_mine *own = &OSQ_MINE[smp_processor_id()];
	s32 mine = own->node, pred;

	osq_plain(OSQ_NODES[mine].word, encode_cpu(smp_processor_id()));
	/* Full barrier: who finds our node must not find it released, as it was left. */
	pred = atomic_xchg(&OSQ_NAME(queue).tail, mine);
	if (pred >= 0 && osq_read(OSQ_NODES[pred].word) == OSQ_UNLOCKED_VAL) {
		smp_acquire__after_ctrl_dep();
		pred = ~pred;
	}
	if (pred >= 0 && !OSQ_NAME(spin_on_owner)(&pred))
		return OSQ_NAME(leave)(mine, pred);
	own->pred = pred;
	return true;
}

static void OSQ_NAME(osq_unlock)(void)
{
	struct optimistic_spin_queue *lock = &OSQ_NAME(queue);
	struct osq_clh_mine *own = &OSQ_MINE[smp_processor_id()];
	s32 mine = own->node, pred = own->pred;

	if (pred < 0) {
		if (likely(cmpxchg32(&lock->tail, mine, pred) == mine))
			return;
		pred = ~pred;
	}
	own->node = pred;
	OSQ_HAND_OFF_RELEASE(OSQ_NODES[mine].word, OSQ_UNLOCKED_VAL);
}

static __cold bool __unused OSQ_NAME(idle)(void)
{
	s32 tail = osq_read(OSQ_NAME(queue).tail);

	return tail < 0 || osq_read(OSQ_NODES[tail].word) == OSQ_UNLOCKED_VAL;
}

/* Every node belongs to one processor, or is the tail. */
static __cold bool __unused OSQ_NAME(node_idle)(u32 cpu)
{
	s32 tail = osq_read(OSQ_NAME(queue).tail);

	return OSQ_MINE[cpu].node != (tail < 0 ? ~tail : tail);
}

static __cold u32 __unused OSQ_NAME(tail)(void)
{
	s32 tail = osq_read(OSQ_NAME(queue).tail);
	s32 word = tail < 0 ? 0 : osq_read(OSQ_NODES[tail].word);

	return word > 0 ? (u32)word : 0;
}

#ifdef OSQ_PROBES
/* As in osq_lock.h; the other processor is played by node OSQ_FAKE. */

static __cold void OSQ_NAME(play_waiting)(void)
{
	OSQ_NODES[OSQ_FAKE].word = encode_cpu((s32)OSQ_FAKE);
}

static noinline void OSQ_NAME(spin)(unsigned n)
{
	s32 *polled = &OSQ_NODES[OSQ_FAKE].word;

	while (n--) {
		s32 word = osq_read(*polled);

		if (word <= 0)
			return;
		if (need_resched() || OSQ_PREEMPTED_CPU(word))
			return;
		cpu_relax();
	}
}

static __cold void OSQ_NAME(play_holding)(void)
{
	struct osq_clh_mine *own = &OSQ_MINE[smp_processor_id()];

	OSQ_NODES[own->node].word = encode_cpu(smp_processor_id());
	own->pred = own->node;
}

static noinline bool OSQ_NAME(hand_off)(void)
{
	s32 pred = OSQ_MINE[smp_processor_id()].node;

	OSQ_NAME(osq_unlock)();
	return OSQ_NAME(spin_on_owner)(&pred);
}

static __cold void OSQ_NAME(play_end)(void)
{
}
#endif

#undef OSQ_NAME
#undef OSQ_NODES
#undef OSQ_MINE
#undef OSQ_PREEMPTED_CPU
