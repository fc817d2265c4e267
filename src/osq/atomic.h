/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The atomics of the locks, under Linux's names and as Linux renders them on x86. One thin layer,
 * so that the interleaving test can compile the very same lock source against its own scheduler
 * (tests/host/model.h, which defines OSQ_ATOMICS first).
 */
#ifndef MCSPIN_OSQ_ATOMIC_H
#define MCSPIN_OSQ_ATOMIC_H

#include "../types.h"

#ifndef OSQ_ATOMICS

#include "../alt/alternative.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"

/* XCHG with memory locks by itself and needs no prefix. */
#define atomic_xchg(p, v)	   __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
/* x86 keeps stores in order, and loads; only the compiler has to be told. */
#define smp_wmb()		      barrier()
#define smp_acquire__after_ctrl_dep() barrier()
#define smp_load_acquire(p)	      __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	      __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define osq_read(x)		      READ_ONCE(x)
#define osq_write(x, v)		      WRITE_ONCE(x, v)
#define osq_plain(x, v)		      ((x) = (v)) /* a plain store: nothing orders it */

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
	u32 flag;

	__asm__ volatile("movl %%gs:%c1, %0"
			 : "=r"(flag)
			 : "i"(offsetof(struct percpu, need_resched)));
	return flag;
}

#endif

/* 0 is nobody, so a processor's number is stored increased by one. The interleaving test moves
 * this to show what happens when processor 0 and "unlocked" look alike. */
#ifndef OSQ_CPU_BASE
#define OSQ_CPU_BASE 1
#endif

static __always_inline s32 encode_cpu(s32 cpu)
{
	return cpu + OSQ_CPU_BASE;
}

#endif
