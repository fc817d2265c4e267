/* SPDX-License-Identifier: GPL-2.0-only */
#include "text-patching.h"
#include "../cpu/features.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../trap/ptrace.h"

#define INT3  0xcc
#define JMP32 0xe9

static const u8 nop5[POKE_LEN] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

static const struct poke *vec;
static unsigned vec_count;
static u64 hits, late;
/* 1 while a batch stands, plus 1 for each handler that is reading it. The batch's memory is used
 * again for the next one: a handler that an NMI interrupts mid-way must not read half of either. */
static u32 refs;

#define DRAIN_SPINS 100000000u /* of PAUSE: a handler reads a few hundred bytes */

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

/*
 * QEMU before 8.2 can translate the old bytes while they are being replaced and enter the stale
 * translation after the write has thrown the others away; it would trap there for ever. Once every
 * processor has been serialised no translation of old bytes is under way any more, so writing the
 * same byte again throws the stale one away too. On hardware this is a store of what stands there.
 */
static int live_settle(const struct poke *pokes, unsigned count)
{
	if (!boot_cpu_data.emulated)
		return 0;
	for (unsigned i = 0; i < count; i++)
		WRITE_ONCE(*pokes[i].addr, pokes[i].text[0]);
	return 0;
}

const struct poke_ops poke_ops_live = {live_write, platform_sync_cores, live_settle};

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

static bool get_batch(void)
{
	u32 seen = __atomic_load_n(&refs, __ATOMIC_ACQUIRE);

	while (seen && !__atomic_compare_exchange_n(&refs, &seen, seen + 1, true, __ATOMIC_ACQUIRE,
						    __ATOMIC_ACQUIRE))
		;
	return seen != 0;
}

static void put_batch(void)
{
	__atomic_fetch_sub(&refs, 1, __ATOMIC_RELEASE);
}

/* The last step is done: no new reader gets in; wait for those inside. */
static int end_batch(void)
{
	put_batch();
	for (u32 i = 0; i < DRAIN_SPINS; i++) {
		if (!__atomic_load_n(&refs, __ATOMIC_ACQUIRE))
			return 0;
		cpu_relax();
	}
	return -ETIMEDOUT;
}

int text_poke_bp_batch(const struct poke *pokes, unsigned count, const struct poke_ops *ops)
{
	int (*const steps[])(const struct poke *, const struct poke_ops *) = {
		step_int3, step_tail, step_first};
	int err = 0;

	if (count > POKE_MAX)
		return -E2BIG;
	if (__atomic_load_n(&refs, __ATOMIC_ACQUIRE))
		return -EBUSY;
	vec = pokes;
	vec_count = count;
	__atomic_store_n(&refs, 1, __ATOMIC_RELEASE);
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
	if (ops->settle)
		ops->settle(pokes, count);
	if (end_batch() && !err)
		err = -ETIMEDOUT;
	return err;
}

/* Continue as these five bytes at `addr` would; false when they are neither of the two kinds. */
static bool emulate_text(struct pt_regs *regs, u8 *addr, const u8 *text)
{
	s32 rel = 0;

	if (text[0] == JMP32)
		memcpy(&rel, text + 1, 4);
	else if (memcmp(text, nop5, POKE_LEN))
		return false;
	regs->ip = (u64)addr + POKE_LEN + (u64)(s64)rel;
	return true;
}

/* Continue as the new code would. True when `addr` is one of the batch. */
static bool emulate(struct pt_regs *regs, u8 *addr)
{
	for (unsigned i = 0; i < vec_count; i++) {
		if (vec[i].addr == addr)
			return emulate_text(regs, addr, vec[i].text);
	}
	return false;
}

/* No batch stands: continue as the text does now. False when a batch has begun meanwhile (its
 * writes may tear what was read), or when this is nobody's breakpoint. Emulated rather than run
 * again: an emulator may hold on to the breakpoint (live_settle). */
static bool emulate_late(struct pt_regs *regs, u8 *addr)
{
	u8 text[POKE_LEN];

	for (unsigned i = 0; i < POKE_LEN; i++)
		text[i] = READ_ONCE(addr[i]);
	return !__atomic_load_n(&refs, __ATOMIC_ACQUIRE) && emulate_text(regs, addr, text);
}

#define LATE_TRIES 1000 /* each takes a whole batch beginning in between */

bool poke_int3_handler(struct pt_regs *regs)
{
	u8 *addr = (u8 *)regs->ip - 1;

	for (unsigned i = 0; i < LATE_TRIES; i++) {
		if (get_batch()) {
			bool ours = emulate(regs, addr);

			put_batch();
			if (ours) {
				__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
				return true;
			}
		}
		if (emulate_late(regs, addr)) {
			__atomic_fetch_add(&late, 1, __ATOMIC_RELAXED);
			return true;
		}
		cpu_relax();
	}
	return false;
}
