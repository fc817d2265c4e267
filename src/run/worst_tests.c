/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The worst, on purpose: a processor that hangs, overruns its stack, or meets an exception in the
 * middle of a contest. Each runs only when named (test=hang_on_ap), each must end the run as an
 * error within 20 s, with a "crash" event that names processor, test and cause. So these never
 * pass; tests/qemu/test_worst.py judges what they leave behind.
 */
#include "run.h"
#include "../bench/tsc.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"

#define WAIT_MS 3000

static u32 never;

static void hang(void *arg)
{
	while (!__atomic_load_n(&never, __ATOMIC_RELAXED))
		cpu_relax();
}

TEST(selftest, hang_on_ap, "an application processor that hangs is named and pulled out",
     NEED_RING0 | NEED_2_CPUS | NEED_ASKED)
{
	int err = on_cpu(another_cpu(), hang, NULL, WAIT_MS);

	check(t, !err, "processor 1 hung and was given up (%d)", err);
}

TEST(selftest, hang_on_control, "the processor that runs the tests is watched as well",
     NEED_RING0 | NEED_ASKED)
{
	hang(NULL);
	check(t, false, "nothing ended the hang");
}

static noinline u32 deeper(u32 n)
{
	volatile u8 room[256];

	room[n % sizeof(room)] = (u8)n;
	/* The addition after the call keeps the compiler from making a loop of it. */
	return n == ~0u ? 0 : deeper(n + 1) + room[n % sizeof(room)];
}

static void overrun(void *arg)
{
	*(u32 *)arg = deeper(0);
}

TEST(selftest, overrun_on_ap, "a stack that is overrun ends in a report, not in foreign memory",
     NEED_RING0 | NEED_2_CPUS | NEED_ASKED)
{
	static u32 sum;
	int err = on_cpu(another_cpu(), overrun, &sum, WAIT_MS);

	check(t, !err, "processor 1 overran its stack and was given up (%d)", err);
}

#define CONTEST_ROUNDS 2000
#define CONTEST_MS     1000

static u32 contest_owner, contest_count;

/* Takes turns by compare and exchange; processor 1 breaks while it holds the lock. */
static void contend(void *arg)
{
	u64 end = rdtsc_ordered() + tsc_from_us(CONTEST_MS * 1000);

	for (u32 i = 0; i < CONTEST_ROUNDS && rdtsc_ordered() < end; i++) {
		u32 nobody = 0;

		if (!__atomic_compare_exchange_n(&contest_owner, &nobody, 1, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		contest_count++;
		if (smp_processor_id() == *(unsigned *)arg && i > CONTEST_ROUNDS / 4)
			__asm__ volatile("ud2");
		__atomic_store_n(&contest_owner, 0, __ATOMIC_RELEASE);
	}
}

TEST(selftest, crash_in_contest, "an exception in the middle of a contest leaves the others alive",
     NEED_RING0 | NEED_2_CPUS | NEED_ASKED)
{
	static unsigned victim;
	unsigned done;

	victim = another_cpu();
	done = on_each_cpu(contend, &victim, WAIT_MS);
	check(t, done == usable_cpus(), "%u processors came to the end, one alone was to be lost", done);
	check(t, false, "processor %u met #UD while it held the lock", victim);
}

/* In the worst moment for what must be put back: vector state on, a watchpoint armed. */
TEST(selftest, crash_on_control, "an exception on the processor that runs the tests ends the run",
     NEED_RING0 | NEED_ASKED)
{
	platform_vector_begin();
	platform_watchpoint(3, &never, true);
	__asm__ volatile("ud2");
	check(t, false, "nothing caught the exception");
}
