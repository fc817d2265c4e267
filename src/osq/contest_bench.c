/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which form is best on this machine: contests of every lock with every other, round by round, over
 * numbers of processors, distances, and hold and gap times; hand-offs beside the time that a line
 * needs between the same two processors, which no lock can beat; and one number for all of it.
 */
#include "contest.h"
#include "index.h"
#include "../bench/bench.h"
#include "../bench/tsc.h"
#include "../cpu/features.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/run.h"

#define ROUNDS	     15 /* short ones: on a shared machine most long ones are disturbed */
#define MAX_LOCKS    14
#define AWAY_US	     100
#define MARK_AWAY    8 /* beside the marks of stats.h */
#define MAX_HANDOFFS 240
#define LINE_SAMPLES 5
#define MAX_POINTS   64
#define MAX_FIELD    64 /* processors in one contest: the arrays below; larger machines use so many */

/* Ticks inside and outside the lock. Never only 0/0: nothing real is like that. */
static const struct {
	u32 hold, gap;
} loads[] = {{0, 0}, {200, 200}, {200, 2000}, {2000, 500}};

#define HANDOFF_LOAD 1 /* both sides always wait for each other, and neither only spins */

struct measured {
	u64 rate[ROUNDS]; /* acquisitions in a second */
	u8 mark[ROUNDS]; /* somebody was away meanwhile: an SMI, a host's other threads */
	u64 handoff[MAX_HANDOFFS];
	unsigned handoffs;
	u64 multiple[ROUNDS]; /* a round's hand-off by its line transfer, in 1/1000 */
	unsigned multiples;
	u64 deviation[ROUNDS], together[ROUNDS];
	u64 aborted, longest_wait, least, most;
	u64 ordered; /* services whose order was judged */
	u64 lines[PMU_EVENTS]; /* in each turn, in 1/1000 */
};

static struct {
	const struct lock_variant *lock[MAX_LOCKS];
	unsigned locks;
	struct measured *m;		/* of this point, by lock */
	u32 (*against)[MAX_LOCKS]; /* rate against linux, in 1/1000, by point */
	unsigned points;
	u64 window;
	/* The best form between two processors, by hand-off. */
	u64 best_handoff, best_multiple;
	const struct lock_variant *best;
	struct pmu pmu;
	bool broken;
} field;

static void choose_locks(void)
{
	field.locks = 0;
	for (unsigned i = 0; i < lock_variant_count; i++)
		field.lock[field.locks++] = lock_variants[i];
	for (unsigned i = 0; i < lock_peer_count && field.locks < MAX_LOCKS; i++)
		field.lock[field.locks++] = &lock_peers[i];
}

static void run_clean(struct contest *c)
{
	char why[160];

	c->window = field.window;
	contest_run(c);
	if (!contest_clean(c, why, sizeof(why))) {
		run_worsen(RESULT_FAIL, "contest: %s", why);
		field.broken = true;
	}
}

static u64 median_of(const u64 *values, unsigned n)
{
	u64 sorted[MAX_HANDOFFS];

	if (!n)
		return 0;
	memcpy(sorted, values, n * sizeof(*values));
	stats_sort(sorted, n);
	return stats_percentile(sorted, n, 500);
}

/* What a line needs between these two just now: a hypervisor may move its processors from one core's
 * threads to two cores and back. 0: not two, or one did not come. */
static u64 line_now(const struct contest *c)
{
	u64 samples[LINE_SAMPLES];

	if (c->n != 2)
		return 0;
	return median_of(samples, line_transfer(c->cpus[0], c->cpus[1], samples, LINE_SAMPLES));
}

static void one_contest(unsigned l, unsigned round, struct contest *c)
{
	struct measured *m = &field.m[l];
	unsigned first = m->handoffs;
	u64 line = line_now(c);

	c->v = field.lock[l];
	c->stamps = true;
	run_clean(c);
	m->rate[round] = c->acquired * 1000000000 / max_of(tsc_to_ns(c->ticks), 1ull);
	if (c->longest_turn > tsc_from_us(AWAY_US) + 4 * c->n * (c->hold + c->gap) ||
	    (c->comparable && c->together < 900 && c->n > 1))
		m->mark[round] = MARK_AWAY;
	m->deviation[round] = c->deviation;
	m->together[round] = c->together;
	m->aborted += c->aborted;
	m->longest_wait = max_of(m->longest_wait, c->longest_wait);
	m->least = round ? min_of(m->least, c->least) : c->least;
	m->most = max_of(m->most, c->most);
	for (unsigned i = 0; i < min_of(c->handoffs, MAX_HANDOFFS / ROUNDS); i++)
		m->handoff[m->handoffs++] = c->handoff[i];
	if (line && m->handoffs > first)
		m->multiple[m->multiples++] = handoff_multiple(
			median_of(m->handoff + first, m->handoffs - first), line);
}

/* Rate against linux's, round by round: what moves between rounds moves both. In 1/1000, the median
 * of the rounds in which nobody was away, or of all when there is none. */
static u64 rate_against_linux(const struct measured *m)
{
	const struct measured *base = &field.m[0];
	u64 clean[ROUNDS], all[ROUNDS];
	unsigned n = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		all[i] = base->rate[i] ? m->rate[i] * 1000 / base->rate[i] : 0;
		if (!m->mark[i] && !base->mark[i])
			clean[n++] = all[i];
	}
	return n ? median_of(clean, n) : median_of(all, ROUNDS);
}

static void emit_point(const struct bench *b, const struct contest *c, const char *distance)
{
	struct bench_param params[BENCH_MAX_PARAMS] = {{"cpus", NULL, c->n},
						       {"hold", NULL, c->hold},
						       {"gap", NULL, c->gap},
						       {"distance", distance, 0}};
	/* The same name for both, told apart by `what`. */
	for (unsigned l = 0; l < field.locks; l++) {
		struct measured *m = &field.m[l];

		params[4] = (struct bench_param){"what", "throughput", 0};
		bench_emit(b, field.lock[l]->name, params, "acquisitions/s", m->rate, m->mark, ROUNDS);
		if (m->handoffs) {
			params[4].text = "handoff";
			bench_emit(b, field.lock[l]->name, params, "ticks", m->handoff, NULL,
				   m->handoffs);
		}
		if (m->multiples) {
			params[4].text = "multiple";
			bench_emit_milli(b, field.lock[l]->name, params, "lines", m->multiple, NULL,
					 m->multiples);
		}
		event_begin("contest");
		event_str("variant", field.lock[l]->name);
		event_u64("cpus", c->n);
		event_u64("hold", c->hold);
		event_u64("gap", c->gap);
		event_str("distance", distance);
		event_fixed("deviation", (s64)median_of(m->deviation, ROUNDS), 3);
		if (c->comparable)
			event_fixed("together", (s64)median_of(m->together, ROUNDS), 3);
		else
			event_null("together");
		event_u64("ordered", m->ordered);
		if (!field.pmu.missing) {
			event_fixed("lines_fetched", (s64)m->lines[PMU_FETCHED], 3);
			event_fixed("lines_from_memory", (s64)m->lines[PMU_FROM_MEMORY], 3);
		}
		event_u64("least", m->least);
		event_u64("most", m->most);
		event_u64("aborted", m->aborted);
		event_u64("longest_wait", m->longest_wait);
		event_end();
	}
}

/* Which form hands over best, against what is possible at all. A hand-off moves a line: one quicker
 * than that is a clock read wrongly. */
static void judge_handoff(const struct contest *c, unsigned l)
{
	const struct measured *m = &field.m[l];
	u64 multiple = median_of(m->multiple, m->multiples);

	if (!multiple)
		return;
	if (multiple < 1000)
		run_worsen(RESULT_ERROR, "contest: %s hands over in 0.%03llu of the time that a line "
			   "needs: the measurement is wrong", field.lock[l]->name,
			   (unsigned long long)multiple);
	if (c->hold != loads[HANDOFF_LOAD].hold || c->gap != loads[HANDOFF_LOAD].gap ||
	    !field.lock[l]->osq || (field.best && multiple >= field.best_multiple))
		return;
	field.best = field.lock[l];
	field.best_multiple = multiple;
	field.best_handoff = median_of(m->handoff, m->handoffs);
}

/* What two processors and more say about each form. */
static void remember(const struct contest *c)
{
	if (c->n < 2)
		return;
	for (unsigned l = 0; l < field.locks; l++) {
		if (field.points < MAX_POINTS)
			field.against[field.points][l] = (u32)rate_against_linux(&field.m[l]);
		judge_handoff(c, l);
	}
	field.points += field.points < MAX_POINTS;
}

/* The same contest once more before it is timed, for the order in which they are served. */
static void look_at_order(struct contest *c)
{
	for (unsigned l = 0; l < field.locks && !field.broken; l++) {
		struct contest o = {.v = field.lock[l], .cpus = c->cpus, .n = c->n, .hold = c->hold,
				    .gap = c->gap, .order = true};

		if (!o.v->fifo || o.n < 2)
			continue;
		run_clean(&o);
		field.m[l].ordered = o.ordered;
	}
}

/* And once for the lines that each turn fetches, hand-off and all. Counters that say nothing where
 * lines must move are believed in nothing. */
static void count_lines(const struct contest *c)
{
	u64 all = 0;

	for (unsigned l = 0; l < field.locks && !field.broken && !field.pmu.missing; l++) {
		struct contest o = {.v = field.lock[l], .cpus = c->cpus, .n = c->n, .hold = c->hold,
				    .gap = c->gap, .pmu = &field.pmu};

		run_clean(&o);
		for (unsigned e = 0; e < PMU_EVENTS; e++)
			field.m[l].lines[e] = o.lines[e] * 1000 / max_of(o.acquired, 1ull);
		all += o.lines[PMU_FETCHED];
		if (o.uncounted)
			field.pmu.missing = PMU_REFUSED;
	}
	if (!field.pmu.missing && c->n > 1 && !all)
		field.pmu.missing = PMU_STANDS;
}

static void tell_uncounted(void)
{
	if (field.pmu.missing)
		run_leave_out("contest lines_fetched", field.pmu.missing);
}

/* All locks, round by round, in an order that rotates. */
static void measure_point(const struct bench *b, const u16 *cpus, unsigned n, unsigned load,
			  const char *distance)
{
	struct contest c = {.cpus = cpus, .n = n, .hold = loads[load].hold, .gap = loads[load].gap};

	memset(field.m, 0, MAX_LOCKS * sizeof(*field.m));
	look_at_order(&c);
	count_lines(&c);
	for (unsigned round = 0; round < ROUNDS && !field.broken; round++) {
		for (unsigned i = 0; i < field.locks && !field.broken; i++) {
			c = (struct contest){.cpus = cpus,
					     .n = n,
					     .hold = loads[load].hold,
					     .gap = loads[load].gap};
			one_contest((i + round) % field.locks, round, &c);
		}
		platform_breathe();
		event_beacon("contest");
	}
	if (field.broken)
		return;
	emit_point(b, &c, distance);
	remember(&c);
}

/* -------------------------------------------------------------------- what is swept */

static void measure_line(const struct bench *b, unsigned x, unsigned y, const char *distance)
{
	u64 samples[64];
	struct bench_param params[BENCH_MAX_PARAMS] = {{"distance", distance, 0},
						       {"what", "line_transfer", 0}};
	unsigned n = line_transfer(x, y, samples, ARRAY_SIZE(samples));

	if (n)
		bench_emit(b, "ping_pong", params, "ticks", samples, NULL, n);
}

/* One pair for each distance that this machine has, from the caller's processor. */
static void by_distance(const struct bench *b)
{
	u16 pair[2] = {(u16)smp_processor_id(), 0};

	for (unsigned d = DIST_SMT; d <= DIST_UNKNOWN; d++) {
		for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
			if (!platform_cpu_usable(cpu) || cpu == pair[0] ||
			    cpu_distance(pair[0], cpu) != (enum cpu_distance)d)
				continue;
			pair[1] = (u16)cpu;
			measure_line(b, pair[0], pair[1], cpu_distance_name(d));
			for (unsigned load = 0; load < ARRAY_SIZE(loads); load++)
				measure_point(b, pair, 2, load, cpu_distance_name(d));
			break;
		}
	}
}

static void by_number(const struct bench *b)
{
	u16 cpus[MAX_FIELD];
	unsigned all = contest_cpus(cpus, MAX_FIELD);

	for (unsigned n = 1; n <= all; n = n < all && 2 * n > all ? all : 2 * n) {
		/* Two processors are told apart by distance. */
		if (n != 2)
			measure_point(b, cpus, n, n == 1 ? 0 : 1, "mixed");
		if (n == all && n > 2)
			measure_point(b, cpus, n, 2, "mixed");
	}
}

/* -------------------------------------------------------------------- what follows from it */

static void tell_best(void)
{
	static const char *const evidence[] = {"bench:contest what=multiple",
					       "bench:contest what=line_transfer", NULL};
	char text[200], times[RATIO_TEXT];

	if (!field.best)
		return;
	mc_snprintf(text, sizeof(text),
		    "%s hands over fastest between two processors: in %s times what a line needs, "
		    "%llu ticks",
		    field.best->name, ratio_text(times, (s64)field.best_multiple * 10, 50),
		    (unsigned long long)field.best_handoff);
	event_finding("best_lock", text, true, (s64)field.best_multiple, 3, evidence);
}

static void tell_index(void)
{
	static const char *const evidence[] = {
		"bench:contest what=throughput",
		"published, UnixBench, static_key: Xeon Silver 4210 7923 to 8249, Hygon C86 7185 7757 to 8158",
		NULL};
	char text[400];
	size_t at;
	u64 best = 0;

	if (!field.points)
		return;
	at = mc_snprintf(text, sizeof(text), "full-processor index, linux = 1000:");
	for (unsigned l = 0; l < field.locks && at < sizeof(text); l++) {
		u32 column[MAX_POINTS];
		u64 mean;

		for (unsigned p = 0; p < field.points; p++)
			column[p] = field.against[p][l];
		mean = geometric_mean(column, field.points);
		at += mc_snprintf(text + at, sizeof(text) - at, "%s %s %llu", l ? "," : "",
				  field.lock[l]->name, (unsigned long long)mean);
		if (field.lock[l]->osq)
			best = max_of(best, mean);
	}
	event_finding("full_processor_index", text, true, (s64)best, 3, evidence);
}

/* The window that fits the time: points x locks x rounds of it, and as much again for the rest. */
static void choose_window(const struct bench *b)
{
	unsigned all = usable_cpus(), points = ARRAY_SIZE(loads) + 1;
	u64 us;

	for (unsigned n = 4; n < all; n *= 2)
		points++;
	points += all > 2 ? 2 : 0;
	us = (u64)run_bench_ms(b) * 1000 / (points * field.locks * ROUNDS) / 2;
	field.window = tsc_from_us(us < 200 ? 200 : us > 1000 ? 1000 : us);
}

BENCH(contest, "every lock under contention, beside the time that a cache line needs",
      NEED_2_CPUS | NEED_REALTIME, 30)
{
	memset(&field, 0, sizeof(field));
	field.m = platform_alloc(MAX_LOCKS * sizeof(*field.m));
	field.against = platform_alloc(MAX_POINTS * sizeof(*field.against));
	if (!field.m || !field.against) {
		run_worsen(RESULT_ERROR, "contest: no memory");
		return;
	}
	pmu_decide(&field.pmu, &boot_cpu_data, &cpu_source_live);
	choose_locks();
	choose_window(b);
	if (!tsc_comparable())
		run_leave_out("contest what=handoff, together", TSC_INCOMPARABLE);
	by_distance(b);
	by_number(b);
	tell_uncounted();
	if (!field.broken) {
		tell_best();
		tell_index();
	}
	platform_free(field.m, MAX_LOCKS * sizeof(*field.m));
	platform_free(field.against, MAX_POINTS * sizeof(*field.against));
}
