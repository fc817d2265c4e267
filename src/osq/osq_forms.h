/* SPDX-License-Identifier: GPL-2.0-only */
/* What the including file must have around the queues of osq_lock.h, osq_merged.h and osq_clh.h;
 * the interleaving test has its own. */
#ifndef MCSPIN_OSQ_FORMS_H
#define MCSPIN_OSQ_FORMS_H

#include "atomic.h"

#ifndef OSQ_ATOMICS

#define OSQ_COUNT(exit)                                                                            \
	do {                                                                                       \
		if (unlikely(osq_count_exits))                                                     \
			__atomic_fetch_add(&osq_exits.exit, 1, __ATOMIC_RELAXED);                  \
	} while (0)

/* -DMUTANT_HANDOFF: the unlocker forgets its successor. A test must say so. */
#ifdef MUTANT_HANDOFF
#define OSQ_HAND_OFF(x, v)	   ((void)&(x))
#define OSQ_HAND_OFF_RELEASE(x, v) ((void)&(x))
#else
#define OSQ_HAND_OFF(x, v)	   osq_write(x, v)
#define OSQ_HAND_OFF_RELEASE(x, v) smp_store_release(&(x), v)
#endif

#endif

/* The node after those of all processors, where one processor plays two. */
#define OSQ_FAKE platform_cpus()

/* The usual way to keep the own number, and nothing beside node->prev. */
#define OSQ_SET_CPU_ALWAYS(node, curr)	  osq_plain((node)->cpu, curr)
#define OSQ_SET_CPU_IF_NEW(node, curr)                                                             \
	do {                                                                                       \
		if (osq_read((node)->cpu) != (curr))                                               \
			osq_write((node)->cpu, curr);                                              \
	} while (0)
#define OSQ_NO_PREV_CPU(node, prev...) ((void)0)
#define OSQ_SET_PREV_CPU(node, prev, old) osq_plain((node)->prev_cpu, old)
/* The number is a constant of its node, so it cannot disagree with next->prev. */
#define OSQ_MOVE_PREV_CPU(next, prev) osq_write((next)->prev_cpu, osq_read((prev)->cpu))

/* The argument of vcpu_is_preempted(): a load from the predecessor's line. */
#define node_cpu(node) ((long)osq_read((node)->cpu) - OSQ_CPU_BASE)

#endif
