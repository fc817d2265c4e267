/* SPDX-License-Identifier: GPL-2.0-only */
/* Walks the tables of tests and benches: chooses, gates, runs, reports. */
#include "run.h"
#include "options.h"
#include "../bench/tsc.h"
#include "../cpu/features.h"
#include "../cpu/smp.h"
#include "../mce/mce.h"
#include "../platform.h"
#include "../report/event.h"

const char *const suite_names[NR_SUITES] = {
#define X(n) #n,
	MCSPIN_SUITES(X)
#undef X
};

static enum result worst; /* of everything so far */
static unsigned passed_tests;
static bool stopped; /* by the user */
static char doing[96] = "start";

const char *run_doing(void)
{
	return doing;
}

const char *result_name(enum result r)
{
	static const char *const names[] = {"none", "pass", "skip", "fail", "error"};

	return names[r];
}

enum result run_result(void)
{
	/* Nothing passed: whatever that was, it was no pass. */
	if (worst < RESULT_FAIL && !passed_tests)
		return RESULT_ERROR;
	return worst >= RESULT_FAIL ? worst : RESULT_PASS;
}

void run_worsen(enum result r, const char *fmt, ...)
{
	char why[200];
	va_list ap;

	va_start(ap, fmt);
	mc_vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	event_warn("%s", why);
	worst = max_of(worst, r);
}

/* Who sits at the machine may end the run. What is left out was not shown: that is no pass. */
static bool user_stops(void)
{
	if (!stopped && platform_breathe()) {
		stopped = true;
		run_worsen(RESULT_ERROR, "stopped by a key before %s: the rest is left out", doing);
	}
	return stopped;
}

/* -------------------------------------------------------------------- one test */

/* The first sentence of the gravest kind stays. */
static void settle(struct test_run *t, enum result r, const char *fmt, va_list ap)
{
	if (t->result >= r)
		return;
	t->result = r;
	mc_vsnprintf(t->reason, sizeof(t->reason), fmt, ap);
}

bool check(struct test_run *t, bool ok, const char *fmt, ...)
{
	va_list ap;

	__atomic_fetch_add(&t->checks, 1, __ATOMIC_RELAXED);
	if (ok)
		return true;
	__atomic_fetch_add(&t->failed, 1, __ATOMIC_RELAXED);
	va_start(ap, fmt);
	settle(t, RESULT_FAIL, fmt, ap);
	va_end(ap);
	return false;
}

void check_skip(struct test_run *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	settle(t, RESULT_SKIP, fmt, ap);
	va_end(ap);
}

void check_error(struct test_run *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	settle(t, RESULT_ERROR, fmt, ap);
	va_end(ap);
}

void check_note(struct test_run *t, const char *fmt, ...)
{
	va_list ap;

	if (t->result > RESULT_PASS)
		return;
	va_start(ap, fmt);
	mc_vsnprintf(t->reason, sizeof(t->reason), fmt, ap);
	va_end(ap);
}

void test_run_init(struct test_run *t, const struct test *test)
{
	memset(t, 0, sizeof(*t));
	t->test = test;
}

enum result test_run_finish(struct test_run *t)
{
	if (t->result == RESULT_NONE) {
		if (t->checks)
			t->result = RESULT_PASS;
		else
			check_error(t, "the test made no check");
	}
	return t->result;
}

/* -------------------------------------------------------------------- what is chosen */

static const char *mce_missing(void)
{
	u64 cap;

	if (!platform_ring0())
		return "a host process sees no machine-check banks";
	if (!boot_cpu_has(X86_FEATURE_MCE) || !boot_cpu_has(X86_FEATURE_MCA))
		return "this processor has no machine-check architecture (CPUID.1:EDX[7,14])";
	if (platform_rdmsr(MSR_IA32_MCG_CAP, &cap) || !MCG_BANKCNT(cap))
		return "IA32_MCG_CAP shows no machine-check bank";
	return NULL;
}

const char *needs_missing(u32 needs)
{
	if ((needs & NEED_RING0) && !platform_ring0())
		return "needs the bare machine; this is a host process";
	if ((needs & NEED_HOST) && platform_ring0())
		return "for a host process only";
	if ((needs & NEED_LONG) && options.quick)
		return "left out by quick=1";
	if ((needs & NEED_ARENA) && !platform_arena())
		return platform_arena_missing();
	if ((needs & NEED_2_CPUS) && usable_cpus() < 2)
		return "needs two processors; this run has one";
	if (needs & NEED_MCE && mce_missing())
		return mce_missing();
	if ((needs & NEED_REALTIME) && boot_cpu_data.emulated)
		return "times are emulation here and mean nothing";
	if ((needs & NEED_PATCHED) && !run_text_patched)
		return "the text could not be patched on this machine";
	if ((needs & NEED_ICOUNT) && options.icount < 0)
		return "counts instructions, which needs QEMU's -icount and icount=N";
	return NULL;
}

static bool chosen(const struct test *t)
{
	bool named = *options.test && glob_list_match(options.test, t->name);

	if (!glob_list_match(options.suite, suite_names[t->suite]))
		return false;
	if (*options.test)
		return named;
	return !(t->needs & NEED_ASKED);
}

static size_t test_count(void)
{
	return __stop_mcspin_tests - __start_mcspin_tests;
}

static size_t bench_count(void)
{
	return __stop_mcspin_benches - __start_mcspin_benches;
}

/* -------------------------------------------------------------------- suites */

static void tell_test(const struct test_run *t, unsigned number, u64 ticks)
{
	const char *suite = suite_names[t->test->suite];
	bool ok = t->result < RESULT_FAIL;

	event_begin("test");
	event_str("suite", suite);
	event_str("name", t->test->name);
	event_str("result", result_name(t->result));
	event_str("reason", *t->reason ? t->reason : NULL);
	event_str("sentence", t->test->sentence);
	event_u64("checks", t->checks);
	event_u64("failed", t->failed);
	event_u64("ticks", ticks);
	event_end();
	if (!ok)
		ktap_line("    # %s: %s", result_name(t->result), t->reason);
	ktap_line("    %s %u %s.%s%s%s", ok ? "ok" : "not ok", number, suite, t->test->name,
		  t->result == RESULT_SKIP ? " # SKIP " : "",
		  t->result == RESULT_SKIP ? t->reason : "");
}

/* Nothing may be left behind: no bank contents, no leave-the-queue flag. */
static void run_body(struct test_run *t)
{
	t->test->fn(t);
	mce_check_banks(t);
	mce_check_elsewhere(t);
}

static enum result run_one(const struct test *test, unsigned number)
{
	const char *missing = needs_missing(test->needs);
	struct test_run t;
	u64 start = rdtsc_ordered();

	test_run_init(&t, test);
	mc_snprintf(doing, sizeof(doing), "%s.%s", suite_names[test->suite], test->name);
	event_beacon(doing);
	if (user_stops())
		check_skip(&t, "the run was stopped by a key");
	else if (missing)
		check_skip(&t, "%s", missing);
	else
		run_body(&t);
	test_run_finish(&t);
	tell_test(&t, number, rdtsc_ordered() - start);
	passed_tests += t.result == RESULT_PASS;
	worst = max_of(worst, t.result);
	return t.result;
}

static unsigned suite_size(unsigned suite)
{
	unsigned n = 0;

	for (size_t i = 0; i < test_count(); i++)
		n += __start_mcspin_tests[i]->suite == suite && chosen(__start_mcspin_tests[i]);
	return n;
}

/* One suite as a KTAP subtest. A suite in which nothing passed and nothing failed is a skip. */
static void run_suite(unsigned suite, unsigned number)
{
	enum result result = RESULT_NONE;
	unsigned passes = 0, at = 0;

	ktap_line("    # Subtest: %s", suite_names[suite]);
	ktap_line("    1..%u", suite_size(suite));
	/* GCC lays a file's tests down last one first; from the end they come as they are written. */
	for (size_t i = test_count(); i-- > 0;) {
		const struct test *t = __start_mcspin_tests[i];
		enum result r;

		if (t->suite != suite || !chosen(t))
			continue;
		r = run_one(t, ++at);
		passes += r == RESULT_PASS;
		result = max_of(result, r);
	}
	if (result >= RESULT_FAIL)
		ktap_line("not ok %u %s", number, suite_names[suite]);
	else if (!passes)
		ktap_line("ok %u %s # SKIP every test of it was skipped", number, suite_names[suite]);
	else
		ktap_line("ok %u %s", number, suite_names[suite]);
}

static unsigned suites_chosen(void)
{
	unsigned n = 0;

	for (unsigned s = 0; s < NR_SUITES; s++)
		n += suite_size(s) > 0;
	return n;
}

static bool bench_chosen(const struct bench *b)
{
	/* Naming tests means that no bench was asked for. */
	if (*options.bench)
		return glob_list_match(options.bench, b->name);
	return !*options.test && !*options.suite && !(b->needs & NEED_ASKED);
}

/* How much there is to do, for those who draw progress. */
static void tell_plan(void)
{
	u32 tests = 0, benches = 0;

	for (unsigned s = 0; s < NR_SUITES; s++)
		tests += suite_size(s) * options.repeat;
	for (size_t i = 0; i < bench_count(); i++)
		benches += bench_chosen(__start_mcspin_benches[i]);
	event_begin("plan");
	event_u64("tests", tests);
	event_u64("benches", benches);
	event_end();
}

void run_tests(void)
{
	unsigned number = 0;

	tell_plan();
	ktap_line("1..%u", suites_chosen() * options.repeat);
	if (!suites_chosen()) {
		run_worsen(RESULT_ERROR, "suite=%s test=%s chooses no test", options.suite,
			   options.test);
		return;
	}
	for (u32 round = 0; round < options.repeat; round++) {
		if (stopped) {
			ktap_line("Bail out! stopped by a key");
			break;
		}
		for (unsigned s = 0; s < NR_SUITES; s++) {
			if (!suite_size(s))
				continue;
			run_suite(s, ++number);
			run_save();
		}
	}
	mc_snprintf(doing, sizeof(doing), "end of tests");
}

/* -------------------------------------------------------------------- benches */

static u32 weight_left; /* of the benches not yet run, the running one included */
static u64 benches_end; /* TSC */

u32 run_bench_ms(const struct bench *b)
{
	u64 now = rdtsc_ordered();
	u64 left = now < benches_end ? tsc_to_ns(benches_end - now) / 1000000 : 0;

	if (!weight_left)
		return 0;
	return (u32)(left * b->weight / weight_left);
}

void run_leave_out(const char *name, const char *why)
{
	event_begin("bench_skipped");
	event_str("name", name);
	event_str("reason", why);
	event_end();
	ktap_line("# bench %s skipped: %s", name, why);
}

static void run_bench(const struct bench *b)
{
	const char *missing = needs_missing(b->needs);

	if (!bench_chosen(b))
		return;
	mc_snprintf(doing, sizeof(doing), "bench %s", b->name);
	event_beacon(doing);
	if (user_stops() || missing) {
		run_leave_out(b->name, stopped ? "the run was stopped by a key" : missing);
		return;
	}
	event_begin("bench_start");
	event_str("name", b->name);
	event_end();
	b->fn(b);
	weight_left -= b->weight;
}

/* bench= that names none, but for "none" itself. */
static void check_choice(void)
{
	if (!*options.bench || !memcmp(options.bench, "none", 5))
		return;
	for (size_t i = 0; i < bench_count(); i++) {
		if (bench_chosen(__start_mcspin_benches[i]))
			return;
	}
	run_worsen(RESULT_ERROR, "bench=%s chooses no bench", options.bench);
}

/* What shares the time goes first: what takes the time it takes (weight 0) would leave it none. */
void run_benches(void)
{
	check_choice();
	weight_left = 0;
	for (size_t i = 0; i < bench_count(); i++) {
		const struct bench *b = __start_mcspin_benches[i];

		if (bench_chosen(b) && !needs_missing(b->needs))
			weight_left += b->weight;
	}
	benches_end = rdtsc_ordered() + tsc_from_us((u64)run_budget_s() * 1000000 * 6 / 10);
	for (size_t i = 0; i < bench_count(); i++) {
		if (__start_mcspin_benches[i]->weight)
			run_bench(__start_mcspin_benches[i]);
	}
	for (size_t i = 0; i < bench_count(); i++) {
		if (!__start_mcspin_benches[i]->weight)
			run_bench(__start_mcspin_benches[i]);
	}
	mc_snprintf(doing, sizeof(doing), "end of benches");
}
