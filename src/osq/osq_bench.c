/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each form costs on one processor: a round of its spin loop, an uncontended pair, a hand-off
 * whose other side is played. Under -icount these are exact instruction counts; the listings, read
 * back from memory after patching, say which instructions they are.
 */
#include "osq.h"
#include "trace.h"
#include "../alt/insn.h"
#include "../bench/bench.h"
#include "../cpu/percpu.h"
#include "../cpu/pmu.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/run.h"

static const struct lock_variant *of(void *ctx)
{
	return ctx;
}

static void spin_body(void *ctx, unsigned n)
{
	of(ctx)->probe->spin(n);
}

static void pair_body(void *ctx, unsigned n)
{
	const struct lock_variant *v = of(ctx);

	while (n--) {
		v->lock();
		v->unlock();
	}
}

static void handoff_prepare(void *ctx)
{
	of(ctx)->probe->play_end();
	of(ctx)->probe->play_holding();
}

static void handoff_body(void *ctx, unsigned n)
{
	of(ctx)->probe->hand_off();
}

/* Shared, because one bench runs at a time; not in .bss, which weighs on the image file. */
static struct bench_case *cases;

/* One case for each variant that has what the bench needs. */
static unsigned choose_cases(void (*body)(void *, unsigned), void (*prepare)(void *), bool probed)
{
	unsigned n = 0;

	if (!cases)
		cases = platform_alloc(BENCH_MAX_CASES * sizeof(*cases));
	if (!cases) {
		run_worsen(RESULT_ERROR, "no memory for the cases of a bench");
		return 0;
	}
	for (unsigned i = 0; i < lock_variant_count + lock_peer_count; i++) {
		const struct lock_variant *v = i < lock_variant_count
						       ? lock_variants[i]
						       : &lock_peers[i - lock_variant_count];

		if ((probed && !v->probe) || n == BENCH_MAX_CASES)
			continue;
		cases[n++] = (struct bench_case){
			.variant = v->name, .body = body, .prepare = prepare, .ctx = (void *)v};
	}
	return n;
}

/* -------------------------------------------------------------------- listings */

static void tell_listing(const struct lock_variant *v, const struct trace_loop *loop)
{
	u8 bytes[MAX_INSN];
	char line[2 * MAX_INSN + 1];

	event_begin("listing");
	event_str("name", "spin");
	event_str("variant", v->name);
	event_hex64("address", (u64)v->probe->spin);
	event_u64("instructions", loop->count);
	event_array("bytes");
	for (unsigned i = 0; i < loop->count && i < 48; i++) {
		unsigned len = trace_bytes(loop->ips[i], bytes);

		for (unsigned b = 0; b < len; b++)
			mc_snprintf(line + 2 * b, 3, "%02x", bytes[b]);
		line[2 * len] = 0;
		event_str(NULL, line);
	}
	event_close();
	event_end();
}

/* Instructions of one round, told; 0 where none shows. */
static unsigned list_spin(const struct lock_variant *v, struct trace_loop *loop)
{
	v->probe->play_waiting();
	if (!trace_round(v->probe->spin, loop))
		return 0;
	tell_listing(v, loop);
	return loop->count;
}

static void spin_finding(const struct bench_case *with, const struct bench_case *without,
			 unsigned more)
{
	s64 ticks = (s64)(with->stats->p50 - without->stats->p50);
	s64 ratio = (s64)(with->stats->p50 * 10000 / max_of(without->stats->p50, 1ull));
	static const char *const evidence[] = {"bench:spin", "listing:spin", NULL};
	char text[240];

	mc_snprintf(text, sizeof(text),
		    "vcpu_is_preempted() and its argument cost %u instructions and %s%lld.%03lld "
		    "%s in each spin (linux against static_key)%s",
		    more, ticks < 0 ? "-" : "", (long long)(ticks < 0 ? -ticks : ticks) / 1000,
		    (long long)(ticks < 0 ? -ticks : ticks) % 1000, bench_unit(),
		    bench_doubt(with, without));
	bench_finding("spin_argument", text, ratio, 4, evidence);
}

/* Counted on the patched bytes, so it stands wherever it ran. */
static void tell_instructions(const struct lock_variant *v, unsigned count)
{
	static const char *const evidence[] = {"listing:spin", NULL};
	char text[80];

	mc_snprintf(text, sizeof(text), "%s spins in %u instructions", v->name, count);
	event_finding("spin_instructions", text, true, count, 0, evidence);
}

#define SPINS_COUNTED 10000

/* Lines that a spin fetches: none, unless its loads are of lines that others write. */
static void count_lines(const struct bench_case *cases, unsigned n)
{
	struct pmu pmu;

	pmu_decide(&pmu, &boot_cpu_data, &cpu_source_live);
	for (unsigned i = 0; i < n && !pmu.missing; i++) {
		const struct lock_variant *v = of(cases[i].ctx);
		unsigned long flags = platform_irq_save();
		struct pmu_saved saved;
		u64 lines[PMU_EVENTS];

		v->probe->play_waiting();
		if (pmu_begin(&pmu, &saved)) {
			pmu.missing = PMU_REFUSED;
		} else {
			v->probe->spin(SPINS_COUNTED);
			pmu_end(&pmu, &saved, lines);
		}
		platform_irq_restore(flags);
		if (pmu.missing)
			break;
		event_begin("spin_lines");
		event_str("variant", v->name);
		event_fixed("lines_fetched", (s64)lines[PMU_FETCHED], 4);
		event_fixed("lines_from_memory", (s64)lines[PMU_FROM_MEMORY], 4);
		event_end();
	}
	if (pmu.missing)
		run_leave_out("spin lines_fetched", pmu.missing);
}

BENCH(spin, "one round of the spin loop, nothing coming", 0, 5)
{
	struct trace_loop *loop = platform_alloc(sizeof(*loop));
	unsigned n = choose_cases(spin_body, NULL, true);
	unsigned count[BENCH_MAX_CASES];

	for (unsigned i = 0; i < n && loop; i++) {
		count[i] = list_spin(of(cases[i].ctx), loop);
		cases[i].params[0] = (struct bench_param){"instructions", NULL, count[i]};
	}
	bench_run(b, cases, n);
	count_lines(cases, n);
	if (loop && n > 2 && cases[0].stats && cases[2].stats) {
		for (unsigned i = 0; i < 3; i++)
			tell_instructions(of(cases[i].ctx), count[i]);
		spin_finding(&cases[0], &cases[2], count[0] - count[2]);
	}
	bench_free(cases, n);
	if (loop)
		platform_free(loop, sizeof(*loop));
}

BENCH(lock_pair, "lock and unlock, nobody else there", 0, 5)
{
	unsigned n = choose_cases(pair_body, NULL, false);

	bench_run(b, cases, n);
	bench_free(cases, n);
}

BENCH(lock_handoff_path, "unlock with a waiter and the look that finds it, both on one processor",
      0, 4)
{
	unsigned n = choose_cases(handoff_body, handoff_prepare, true);

	bench_run(b, cases, n);
	for (unsigned i = 0; i < n; i++)
		of(cases[i].ctx)->probe->play_end();
	bench_free(cases, n);
}
