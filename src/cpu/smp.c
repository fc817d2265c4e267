/* SPDX-License-Identifier: GPL-2.0-only */
#include "smp.h"
#include "percpu.h"
#include "../bench/tsc.h"
#include "../platform.h"

int on_cpu(unsigned cpu, void (*fn)(void *), void *arg, u32 ms)
{
	int err;

	if (cpu == smp_processor_id()) {
		fn(arg);
		return 0;
	}
	err = platform_post(cpu, fn, arg);
	return err ? err : platform_wait(cpu, ms);
}

unsigned on_each_cpu(void (*fn)(void *), void *arg, u32 ms)
{
	u64 posted[MAX_CPUS / 64] = {0};
	unsigned self = smp_processor_id();
	unsigned done = 1;

	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		if (cpu != self && platform_cpu_usable(cpu) && !platform_post(cpu, fn, arg))
			posted[cpu / 64] |= 1ull << cpu % 64;
	}
	fn(arg);
	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		if (posted[cpu / 64] >> cpu % 64 & 1)
			done += platform_wait(cpu, ms) == 0;
	}
	return done;
}

unsigned nth_usable_cpu(unsigned n)
{
	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		if (platform_cpu_usable(cpu) && !n--)
			return cpu;
	}
	return MAX_CPUS;
}

unsigned usable_cpus(void)
{
	unsigned n = 0;

	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++)
		n += platform_cpu_usable(cpu);
	return n;
}

unsigned another_cpu(void)
{
	unsigned first = nth_usable_cpu(0);

	return first != smp_processor_id() ? first : nth_usable_cpu(1);
}

bool cpu_barrier_wait(struct cpu_barrier *b, u64 ticks)
{
	u64 start = rdtsc_ordered();

	__atomic_fetch_add(&b->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&b->arrived, __ATOMIC_ACQUIRE) < b->n) {
		if (rdtsc_ordered() - start > ticks)
			return false;
		cpu_relax();
	}
	return true;
}
