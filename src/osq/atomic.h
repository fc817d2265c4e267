/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The atomics of the locks, under Linux's names and as Linux renders them on x86. One thin layer,
 * so that the interleaving test can compile the very same lock source against its own scheduler
 * (tests/host/interleave.h, which defines OSQ_ATOMICS first).
 */
#ifndef MCSPIN_OSQ_ATOMIC_H
#define MCSPIN_OSQ_ATOMIC_H

#ifndef OSQ_ATOMICS

#include "../alt/alternative.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"

/* XCHG with memory locks by itself and needs no prefix. */
#define atomic_xchg(p, v)	   __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define smp_wmb()		   barrier()
#define smp_load_acquire(p)	   __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	   __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define osq_read(x)		   READ_ONCE(x)
#define osq_write(x, v)		   WRITE_ONCE(x, v)
#define osq_plain(x, v)		   ((x) = (v)) /* a plain store: nothing orders it */

static __always_inline s32 cmpxchg32(s32 *p, s32 old, s32 new)
{
	__asm__ volatile(LOCK_PREFIX "cmpxchgl %2, %1"
			 : "+a"(old), "+m"(*p)
			 : "r"(new)
			 : "memory", "cc");
	return old;
}

static __always_inline void *cmpxchg_ptr(void *p, void *old, void *new)
{
	__asm__ volatile(LOCK_PREFIX "cmpxchgq %2, %1"
			 : "+a"(old), "+m"(*(void **)p)
			 : "r"(new)
			 : "memory", "cc");
	return old;
}

static __always_inline bool need_resched(void)
{
	return READ_ONCE(this_cpu()->need_resched);
}

#endif
#endif
