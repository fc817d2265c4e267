/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The first exhibit as its users met it: every processor copies at once, and the rate is what
 * counts. The published case read 2 MiB blocks from persistent memory on a 96-thread Xeon Gold
 * 6252: 22103 reads a second before the regression, 12551 with it (Linux kernel mailing list,
 * 7 August 2020, "[x86/copy_mc] a0ac629ebe: fio.read_iops -43.3% regression").
 */
#include "copy_mc.h"
#include "../bench/bench.h"
#include "../bench/tsc.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"

#define PUBLISHED_BEFORE 22103
#define PUBLISHED_AFTER	 12551

#define BLOCK	   (2u << 20)
#define AREA	   (16u << 20) /* of one processor: twice its caches' share, where memory allows */
#define BUDGET	   (40u << 20) /* of all processors, on a machine */
#define WINDOW_US  20000
#define MAX_ROUNDS 31

struct contest {
	copy_fn fn;
	u8 *memory;
	unsigned area, block;
	u64 window; /* ticks */
	struct cpu_barrier barrier;
	u64 rate; /* of all processors */
};

/* Through the area, source half and destination half, so that no block is found in a cache. */
static void copy_for_a_window(void *arg)
{
	struct contest *c = arg;
	u8 *source = c->memory + (size_t)smp_processor_id() * c->area;
	u8 *target = source + c->area / 2;
	u64 copies = 0, start, gone;
	unsigned at = 0;

	if (!cpu_barrier_wait(&c->barrier, tsc_from_us(1000000)))
		return;
	start = rdtsc_ordered();
	do {
		c->fn(target + at, source + at, c->block);
		at = at + 2 * c->block <= c->area / 2 ? at + c->block : 0;
		copies++;
		gone = rdtsc_ordered() - start;
	} while (gone < c->window);
	/* By the time that they took: the last one ends behind the window, a slow one far behind. */
	__atomic_fetch_add(&c->rate, mul_div(copies, tsc_from_us(1000000), gone), __ATOMIC_RELAXED);
}

/* Copies per second of all processors. */
static u64 rate_of(struct contest *c, copy_fn fn)
{
	c->fn = fn;
	c->rate = 0;
	c->barrier = (struct cpu_barrier){.n = usable_cpus()};
	on_each_cpu(copy_for_a_window, c, 5000);
	return c->rate;
}

static const struct {
	const char *name;
	copy_fn fn;
} forms[] = {
	{"copy_mc_to_user.fixed", copy_mc_to_user_fixed},
	{"copy_mc_to_user.regressed", copy_mc_to_user_regressed},
	{"copy_mc_to_user.shipped", copy_mc_to_user_shipped},
	{"copy_mc_to_user", copy_mc_to_user},
};

static void tell(const u64 *fixed, const u64 *regressed, unsigned rounds)
{
	static const char *const evidence[] = {"bench:dispatch",
					       "this exhibit turned the fragile key on for itself", NULL};
	u64 ratios[MAX_ROUNDS];
	char text[260], ratio[RATIO_TEXT];
	u64 mid;

	for (unsigned i = 0; i < rounds; i++)
		ratios[i] = fixed[i] ? regressed[i] * 10000 / fixed[i] : 0;
	stats_sort(ratios, rounds);
	mid = stats_percentile(ratios, rounds, 500);
	mc_snprintf(text, sizeof(text),
		    "on %u processors the regressed copy_mc_to_user makes %s times the copies "
		    "per second of the fixed one; published: 0.%04u (%u against %u)",
		    usable_cpus(), ratio_text(ratio, (s64)mid, 50),
		    PUBLISHED_AFTER * 10000 / PUBLISHED_BEFORE, PUBLISHED_AFTER, PUBLISHED_BEFORE);
	bench_finding("dispatch_rate_ratio", text, (s64)mid, 4, evidence);
}

static void run_rounds(const struct bench *b, struct contest *c)
{
	static u64 rates[ARRAY_SIZE(forms)][MAX_ROUNDS];
	u64 start = rdtsc_ordered(), budget = tsc_from_us((u64)run_bench_ms(b) * 1000);
	unsigned least = boot_cpu_data.emulated ? 3 : 7, rounds = 0;
	const struct bench_param params[BENCH_MAX_PARAMS] = {
		{.key = "length", .number = c->block},
		{.key = "processors", .number = usable_cpus()},
		{.key = "fragile_key", .text = "on"},
	};

	while (rounds < MAX_ROUNDS && (rounds < least || rdtsc_ordered() - start < budget)) {
		for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
			unsigned at = (i + rounds) % ARRAY_SIZE(forms);

			rates[at][rounds] = rate_of(c, forms[at].fn);
		}
		rounds++;
		if (boot_cpu_data.emulated && rounds == least)
			break;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(forms); i++)
		bench_emit(b, forms[i].name, params, "copies/s", rates[i], NULL, rounds);
	tell(rates[0], rates[1], rounds);
}

BENCH(dispatch, "copy_mc_to_user on all processors at once, copies per second",
      NEED_PATCHED | NEED_REALTIME, 6)
{
	bool was = static_key_count(&copy_mc_fragile_key.key) > 0;
	unsigned cpus = platform_cpus();
	struct contest c = {.area = AREA, .window = tsc_from_us(WINDOW_US)};
	size_t bytes;

	if (platform_ring0())
		c.area = min_of(AREA, BUDGET / cpus) & ~(4u * PAGE_SIZE - 1);
	c.block = min_of(BLOCK, c.area / 4);
	bytes = (size_t)c.area * cpus;
	c.memory = platform_alloc(bytes);
	if (!c.memory) {
		run_worsen(RESULT_ERROR, "bench dispatch: no memory for %u processors", cpus);
		return;
	}
	for (size_t at = 0; at < bytes; at += 8)
		*(u64 *)(c.memory + at) = at;
	if (static_branch_enable(&copy_mc_fragile_key))
		event_warn("bench dispatch: the fragile key could not be turned on");
	else
		run_rounds(b, &c);
	if (!was)
		static_branch_disable(&copy_mc_fragile_key);
	platform_free(c.memory, bytes);
}
