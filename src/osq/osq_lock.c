/* SPDX-License-Identifier: GPL-2.0-only */
/* The forms of the queue, instantiated, and the table of all locks. */
#include "osq.h"
#include "osq_forms.h"
#include "contest.h"
#include "../platform.h"

struct osq_exits osq_exits;
bool osq_count_exits;
const struct lock_variant *lock_peers;
unsigned lock_peer_count;

/* Not in .bss: a thousand lines would weigh on the image file. */
static struct optimistic_spin_node *nodes;
static struct osq_padded_node *padded_nodes;
static struct osq_prev_cpu_node *prev_cpu_nodes;
static struct osq_merged_node *merged_nodes;
static struct osq_clh_node *clh_nodes;
static struct osq_clh_mine *clh_mine;

#define OSQ_PROBES

/* Today's Linux: the callee is patched to false, the argument is still loaded. */
#define OSQ_NAME(x)		x##_linux
#define OSQ_NODE		optimistic_spin_node
#define OSQ_NODES		nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	vcpu_is_preempted(node_cpu(osq_read((node)->prev)))
#include "osq_lock.h"

/* The posting of 2022: the statement that sets the argument up is an alternative of its own. */
static __always_inline bool preempted_c_code(struct optimistic_spin_node *node)
{
	long cpu = 0;

	ALTERNATIVE_C_CODE(SITE_VCPU_ARGUMENT,
			   ((ALT_FLAG_NOT | ALT_FLAG_C_CODE) << ALT_FLAGS_SHIFT) |
				   X86_FEATURE_VCPUPREEMPT,
			   cpu, cpu = node_cpu(osq_read(node->prev)));
	return vcpu_is_preempted(cpu);
}
#define OSQ_NAME(x)		x##_c_code
#define OSQ_NODE		optimistic_spin_node
#define OSQ_NODES		nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	preempted_c_code(node)
#include "osq_lock.h"

/* The reviewers' shape: the key first, so that neither load nor call happens. */
#define OSQ_NAME(x)		x##_static_key
#define OSQ_NODE		optimistic_spin_node
#define OSQ_NODES		nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)                                                                        \
	(static_branch_likely(&vcpu_has_preemption) &&                                             \
	 vcpu_is_preempted(node_cpu(osq_read((node)->prev))))
#include "osq_lock.h"

#define OSQ_NAME(x)		x##_padded
#define OSQ_NODE		osq_padded_node
#define OSQ_NODES		padded_nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_IF_NEW
#define OSQ_SET_PREV		OSQ_NO_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_NO_PREV_CPU
#define OSQ_PREEMPTED(node)	vcpu_is_preempted(node_cpu(osq_read((node)->prev)))
#include "osq_lock.h"

#define OSQ_NAME(x)		x##_prev_cpu
#define OSQ_NODE		osq_prev_cpu_node
#define OSQ_NODES		prev_cpu_nodes
#define OSQ_SET_CPU		OSQ_SET_CPU_ALWAYS
#define OSQ_SET_PREV		OSQ_SET_PREV_CPU
#define OSQ_MOVE_PREV		OSQ_MOVE_PREV_CPU
#define OSQ_PREEMPTED(node)	vcpu_is_preempted((long)osq_read((node)->prev_cpu) - OSQ_CPU_BASE)
#include "osq_lock.h"

#define OSQ_NAME(x)		x##_merged
#define OSQ_NODE		osq_merged_node
#define OSQ_NODES		merged_nodes
#define OSQ_PREEMPTED_CPU(cpu)	vcpu_is_preempted((long)(cpu) - OSQ_CPU_BASE)
#include "osq_merged.h"

#define OSQ_NAME(x)		x##_clh
#define OSQ_NODES		clh_nodes
#define OSQ_MINE		clh_mine
#define OSQ_PREEMPTED_CPU(cpu)	vcpu_is_preempted((long)(cpu) - OSQ_CPU_BASE)
#include "osq_clh.h"

/* -------------------------------------------------------------------- set-up */

#define ALLOC_NODES(array) (!!((array) = platform_alloc((platform_cpus() + 2) * sizeof(*(array)))))

/* Processor i begins with node i; the tail is the released node that is nobody's; one more is for
 * OSQ_FAKE. */
static void init_clh(void)
{
	for (unsigned i = 0; i < platform_cpus(); i++)
		clh_mine[i].node = (s32)i;
	queue_clh.tail = (s32)platform_cpus() + 1;
}

int osq_init(void)
{
	bool ok = ALLOC_NODES(nodes) && ALLOC_NODES(padded_nodes) && ALLOC_NODES(prev_cpu_nodes) &&
		  ALLOC_NODES(merged_nodes) && ALLOC_NODES(clh_nodes) && ALLOC_NODES(clh_mine);

	if (!ok || yardsticks_init() || contest_init())
		return -ENOMEM;
	init_clh();
	return 0;
}

/* -------------------------------------------------------------------- the table */

#define PROBE(f)                                                                                   \
	static const struct lock_probe probe_##f = {play_waiting_##f, spin_##f, play_holding_##f,  \
						    hand_off_##f, play_end_##f};
PROBE(linux)
PROBE(c_code)
PROBE(static_key)
PROBE(padded)
PROBE(prev_cpu)
PROBE(merged)
PROBE(clh)

#define OSQ_FORM(f, what_)                                                                         \
	static const struct lock_variant lock_##f = {                                              \
		.name = #f,                                                                        \
		.what = what_,                                                                     \
		.osq = true,                                                                       \
		.fifo = true,                                                                      \
		.lock = osq_lock_##f,                                                              \
		.unlock = osq_unlock_##f,                                                          \
		.idle = idle_##f,                                                                  \
		.node_idle = node_idle_##f,                                                        \
		.tail = tail_##f,                                                                  \
		.probe = &probe_##f,                                                               \
	};
OSQ_FORM(linux, "argument loaded, callee patched (today's Linux)")
OSQ_FORM(c_code, "argument set-up patched out by ALTERNATIVE_C_CODE")
OSQ_FORM(static_key, "key tested first: neither load nor call")
OSQ_FORM(padded, "the number on a line of its own")
OSQ_FORM(prev_cpu, "the predecessor's number in the own node")
OSQ_FORM(merged, "node of next and prev_cpu, hand-off in the same word")
OSQ_FORM(clh, "mcspin's own: waiters poll their predecessor, and may leave")

const struct lock_variant *const lock_variants[] = {
	&lock_linux, &lock_c_code, &lock_static_key, &lock_padded, &lock_prev_cpu,
	&lock_merged, &lock_clh,   &lock_mcs,	     &lock_ticket, &lock_ttas,
};
const unsigned lock_variant_count = ARRAY_SIZE(lock_variants);
