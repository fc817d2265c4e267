/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests and benches declare themselves: one macro beside the code puts a descriptor into a linker
 * section, and the runner walks the section. Adding a test touches one file:
 *
 *	TEST(copy_mc, zero_length, "a copy of nothing returns 0", 0)
 *	{
 *		check(t, copy_mc_fragile(dst, src, 0) == 0, "copy of 0 bytes returned a residue");
 *	}
 *
 * Results are ordered and can only get worse: pass < skip < fail < error. A test that made no
 * check is an error (of the test); a suite in which everything was skipped is not a pass.
 */
#ifndef MCSPIN_RUN_RUN_H
#define MCSPIN_RUN_RUN_H

#include "../types.h"

/* In the order in which they run. */
#define MCSPIN_SUITES(X)                                                                           \
	X(selftest)                                                                                \
	X(alternatives)                                                                            \
	X(copy_mc)                                                                                 \
	X(mce)                                                                                     \
	X(osq)

enum suite {
#define X(n) SUITE_##n,
	MCSPIN_SUITES(X)
#undef X
	NR_SUITES
};
extern const char *const suite_names[NR_SUITES];

/* What a test or bench needs; the runner skips it, with the reason, where it is missing. */
#define NEED_RING0    (1u << 0) /* a machine, not a host process */
#define NEED_HOST     (1u << 1) /* a host process: exhaustive forms that take minutes in QEMU */
#define NEED_ARENA    (1u << 2)
#define NEED_2_CPUS   (1u << 3)
#define NEED_MCE      (1u << 4) /* CR4.MCE usable and MCG_CAP shows banks */
#define NEED_REALTIME (1u << 5) /* times mean something: not emulated */
#define NEED_PATCHED  (1u << 6) /* the text could be patched */
#define NEED_ICOUNT   (1u << 7) /* the rig said icount=N: TSC ticks count instructions */
#define NEED_LONG     (1u << 8) /* left out by quick=1 */
#define NEED_ASKED    (1u << 9) /* runs only when test= or suite= names it (dangerous, or needs a rig) */

enum result { RESULT_NONE, RESULT_PASS, RESULT_SKIP, RESULT_FAIL, RESULT_ERROR };

struct test_run;

struct test {
	enum suite suite;
	const char *name;     /* [a-z0-9_]+ */
	const char *sentence; /* what is true when it passes */
	u32 needs;
	void (*fn)(struct test_run *t);
};

#define TEST(suite_, name_, sentence_, needs_)                                                     \
	static void test_##suite_##_##name_(struct test_run *t);                                   \
	static const struct test test_desc_##suite_##_##name_ = {                                  \
		.suite = SUITE_##suite_,                                                           \
		.name = #name_,                                                                    \
		.sentence = sentence_,                                                             \
		.needs = needs_,                                                                   \
		.fn = test_##suite_##_##name_,                                                     \
	};                                                                                         \
	static const struct test *const test_ptr_##suite_##_##name_ __section(".mcspin.tests")     \
		__used = &test_desc_##suite_##_##name_;                                            \
	static void test_##suite_##_##name_(struct test_run *t)

/* One test while it runs. The first failed check's text is the reason in the report. */
struct test_run {
	const struct test *test;
	enum result result;
	u64 checks, failed;
	char reason[240];
};

/* True: nothing. False: the test fails, with this sentence. Returns `ok`. Any processor. */
bool check(struct test_run *t, bool ok, const char *fmt, ...) __printf(3, 4);
/* The test cannot run here, and why. Return afterwards. */
void check_skip(struct test_run *t, const char *fmt, ...) __printf(2, 3);
/* The test itself broke. */
void check_error(struct test_run *t, const char *fmt, ...) __printf(2, 3);
/* A fact worth keeping beside a pass: becomes the "reason" of a passed test. */
void check_note(struct test_run *t, const char *fmt, ...) __printf(2, 3);

/* -------------------------------------------------------------------- benches */

struct bench {
	const char *name;     /* "copy_hot", [a-z0-9_]+ */
	const char *sentence; /* what it measures */
	u32 needs;
	u32 weight; /* its share of the time budget, 1 … 100; 0: takes its own time, after all others */
	/* Emits its own bench events through src/bench/bench.h. */
	void (*fn)(const struct bench *b);
};

#define BENCH(name_, sentence_, needs_, weight_)                                                   \
	static void bench_##name_(const struct bench *b);                                          \
	static const struct bench bench_desc_##name_ = {                                           \
		.name = #name_,                                                                    \
		.sentence = sentence_,                                                             \
		.needs = needs_,                                                                   \
		.weight = weight_,                                                                 \
		.fn = bench_##name_,                                                               \
	};                                                                                         \
	static const struct bench *const bench_ptr_##name_ __section(".mcspin.benches") __used =   \
		&bench_desc_##name_;                                                               \
	static void bench_##name_(const struct bench *b)

extern const struct test *const __start_mcspin_tests[], *const __stop_mcspin_tests[];
extern const struct bench *const __start_mcspin_benches[], *const __stop_mcspin_benches[];

/* NULL when everything in `needs` is here, else one clause that says what is missing. */
const char *needs_missing(u32 needs);

/* -------------------------------------------------------------------- the run */

/* The name of this run and of its folder, "20261201-012244". Made from the clock by
 * run_choose_id(); a platform whose folder of that name exists appends to it before run_begin(). */
extern char run_id[40];

/* All of the steps below, in order, where nothing of the firmware comes in between. */
enum result run_all(void);

/* The steps of efi/main.c that need no firmware, in order. Each emits its events. */
void run_choose_id(void);	   /* run_id from the clock */
void run_begin(void);		   /* KTAP header, event "run" */
void run_know(unsigned cpus);	   /* features, hypervisor, topology, TSC; frozen */
void run_patch(void);		   /* sites */
void run_started(unsigned cpus);   /* the others run: TSC skew; event "machine" once more, whole */
void run_tests(void);		   /* every suite; run_save() after each */
void run_benches(void);
/* Event "done", KTAP closed, the last files. Returns the result of the run. */
enum result run_end(void);

/* Worst result so far; what `run.result` and the exit status become. */
enum result run_result(void);
const char *result_name(enum result r);
/* Something outside a test went wrong (a file could not be written, a processor was lost): the
 * run is at least `r`, and an event says why. */
void run_worsen(enum result r, const char *fmt, ...) __printf(2, 3);
/* results.json, junit.xml and report.html as far as the run has come, into the run's folder.
 * A file that cannot be written is said once and makes the run an error. */
void run_save(void);
/* What runs now, for the crash report and the next run: "copy_mc.nfit", "bench copy_hot". */
const char *run_doing(void);
/* A bench, or one number of it, that is left out, and why. */
void run_leave_out(const char *name, const char *why);
/* Milliseconds that this bench may take, its share of what is left of the budget. */
u32 run_bench_ms(const struct bench *b);
/* Seconds the run may take in all, boot excluded. */
u32 run_budget_s(void);
/* list=1: every test and bench with what it needs, one line each. */
void run_list(void (*line)(const char *text));

/* Did the patcher get to write the text? */
extern bool run_text_patched;

/* For the framework's own test. */
void test_run_init(struct test_run *t, const struct test *test);
enum result test_run_finish(struct test_run *t);

#endif
