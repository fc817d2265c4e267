/* SPDX-License-Identifier: GPL-2.0-only */
#include "text-patching.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../trap/ptrace.h"

#define INT3 0xcc

static const struct poke *vec;
static unsigned vec_count;
static u64 hits, late;

u64 poke_int3_hits(void)
{
	return __atomic_load_n(&hits, __ATOMIC_RELAXED);
}

u64 poke_int3_late(void)
{
	return __atomic_load_n(&late, __ATOMIC_RELAXED);
}

static int live_write(u8 *addr, const u8 *bytes, size_t len)
{
	/* Byte by byte: another processor may fetch in between, and the protocol expects that. */
	for (size_t i = 0; i < len; i++)
		WRITE_ONCE(addr[i], bytes[i]);
	sync_core();
	return 0;
}

const struct poke_ops poke_ops_live = {live_write, platform_sync_cores};

static int step_int3(const struct poke *p, const struct poke_ops *ops)
{
	static const u8 int3 = INT3;

	return ops->write(p->addr, &int3, 1);
}

static int step_tail(const struct poke *p, const struct poke_ops *ops)
{
	return ops->write(p->addr + 1, p->text + 1, POKE_LEN - 1);
}

static int step_first(const struct poke *p, const struct poke_ops *ops)
{
	return ops->write(p->addr, p->text, 1);
}

int text_poke_bp_batch(const struct poke *pokes, unsigned count, const struct poke_ops *ops)
{
	int (*const steps[])(const struct poke *, const struct poke_ops *) = {
		step_int3, step_tail, step_first};
	int err = 0;

	if (count > POKE_MAX)
		return -E2BIG;
	__atomic_store_n(&vec, pokes, __ATOMIC_RELAXED);
	__atomic_store_n(&vec_count, count, __ATOMIC_RELEASE);
	for (unsigned s = 0; s < ARRAY_SIZE(steps); s++) {
		int e = 0;

		for (unsigned i = 0; i < count; i++) {
			int w = steps[s](&pokes[i], ops);

			e = w ? w : e;
		}
		/* A processor that does not answer leaves the batch half way; finishing it is
		 * still better than leaving breakpoints behind, so go on and say so. */
		if (!e)
			e = ops->sync();
		err = err ? err : e;
	}
	__atomic_store_n(&vec_count, 0, __ATOMIC_RELEASE);
	return err;
}

bool poke_int3_handler(struct pt_regs *regs)
{
	u8 *addr = (u8 *)regs->ip - 1;
	unsigned count = __atomic_load_n(&vec_count, __ATOMIC_ACQUIRE);
	const struct poke *pokes = __atomic_load_n(&vec, __ATOMIC_RELAXED);
	s32 rel;

	for (unsigned i = 0; i < count; i++) {
		if (pokes[i].addr != addr)
			continue;
		__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
		regs->ip = (u64)addr + POKE_LEN;
		if (pokes[i].text[0] == 0xe9) {
			memcpy(&rel, pokes[i].text + 1, 4);
			regs->ip += rel;
		}
		return true;
	}
	/* The batch ended between the trap and here: what stands there now may simply be run. */
	if (READ_ONCE(*addr) != INT3) {
		__atomic_fetch_add(&late, 1, __ATOMIC_RELAXED);
		regs->ip = (u64)addr;
		return true;
	}
	return false;
}
