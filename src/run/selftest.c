/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The framework tests itself before anything else is believed: that a failed check is seen, that a
 * result can only get worse, that a test without a check is an error, that formatting tells the
 * truth, and that an exception really arrives and is recovered.
 */
#include "run.h"
#include "options.h"
#include "../cpu/features.h"
#include "../bench/tsc.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../trap/extable.h"
#include "../trap/trap.h"

static enum result result_of(void (*fn)(struct test_run *t), struct test_run *inner)
{
	static const struct test dummy = {.name = "inner"};

	test_run_init(inner, &dummy);
	fn(inner);
	return test_run_finish(inner);
}

static void checks_nothing(struct test_run *t)
{
}

static void passes(struct test_run *t)
{
	check(t, true, "unused");
}

static void fails_then_passes(struct test_run *t)
{
	check(t, false, "first");
	check(t, false, "second");
	check(t, true, "third");
	check_skip(t, "too late");
}

static void skips_then_breaks(struct test_run *t)
{
	check_skip(t, "skip");
	check_error(t, "broke");
}

TEST(selftest, results_only_worsen, "a result can only get worse and keeps its first reason", 0)
{
	struct test_run in;

	check(t, result_of(checks_nothing, &in) == RESULT_ERROR, "a test without a check passed");
	check(t, result_of(passes, &in) == RESULT_PASS, "a passed check did not pass");
	check(t, result_of(fails_then_passes, &in) == RESULT_FAIL, "a failed check was lost");
	check(t, in.failed == 2 && in.checks == 3, "checks miscounted");
	check(t, !memcmp(in.reason, "first", 6), "the first reason was replaced by %s", in.reason);
	check(t, result_of(skips_then_breaks, &in) == RESULT_ERROR, "an error hid behind a skip");
	if (glob_list_match(options.mutant, "selftest") && *options.mutant)
		check(t, false, "mutant=selftest asked for this failure");
}

static bool formats(const char *want, const char *fmt, ...) __printf(2, 3);
static bool formats(const char *want, const char *fmt, ...)
{
	char buf[64];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = mc_vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	for (int i = 0; i <= n; i++) {
		if (buf[i] != want[i])
			return false;
	}
	return true;
}

TEST(selftest, formatting, "the formatter prints what printf would", 0)
{
	check(t, formats("-1 4294967295 ff", "%d %u %x", -1, ~0u, 255), "plain numbers");
	check(t, formats("18446744073709551615", "%llu", ~0ull), "64 bits");
	check(t, formats("00ab|  7|7  |", "%04x|%3d|%-3d|", 0xab, 7, 7), "widths");
	check(t, formats("ab|abc", "%.2s|%.*s", "abc", 3, "abcd"), "precision");
	check(t, formats("100%", "%d%%", 100), "percent");
}

TEST(selftest, features_frozen, "a feature cannot be changed after the freeze", 0)
{
	static struct machine copy; /* too large for an application processor's stack */

	memcpy(&copy, &boot_cpu_data, sizeof(copy));
	check(t, boot_cpu_data.frozen, "features are not frozen");
	check(t, setup_clear_cpu_cap(&copy, X86_FEATURE_ERMS, "test") < 0, "a late clear was taken");
	check(t, setup_force_cpu_cap(&copy, X86_FEATURE_ERMS, "test") < 0, "a late force was taken");
	check(t, copy.features[X86_FEATURE_ERMS] == boot_cpu_has(X86_FEATURE_ERMS),
	      "a refused change went in all the same");
}

/* One access that may fault, of %1: false when the extable took over. */
#define ACCESS(insn, p)                                                                             \
	({                                                                                         \
		bool ok = true;                                                                    \
												   \
		__asm__ volatile("1:	" insn "\n"                                               \
				 "	jmp 3f\n"                                                 \
				 "2:	movb $0, %0\n"                                            \
				 "3:\n" _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT)                 \
				 : "+q"(ok)                                                        \
				 : "r"(p)                                                          \
				 : "rax", "memory");                                               \
		ok;                                                                                \
	})

struct access {
	bool absent_read, read_only_written;
};

static void try_both(void *arg)
{
	struct access *a = arg;

	a->absent_read = ACCESS("movb (%1), %%al", platform_arena());
	a->read_only_written = ACCESS("movb $1, (%1)", platform_arena() + PAGE_SIZE);
}

TEST(selftest, fault_recovered, "a page fault arrives, is looked up in the extable, and continues",
     NEED_ARENA)
{
	u64 before = this_cpu()->fixup_count;
	struct access a;

	check(t, platform_arena_protect(0, 2, ARENA_READ_WRITE) == 0, "pages not made present");
	try_both(&a);
	check(t, a.absent_read && a.read_only_written, "a present page faulted");
	check(t, platform_arena_protect(0, 1, ARENA_ABSENT) == 0, "page not made absent");
	check(t, platform_arena_protect(1, 1, ARENA_READ_ONLY) == 0, "page not made read-only");
	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		if (!platform_cpu_usable(cpu))
			continue;
		a = (struct access){true, true};
		check(t, !on_cpu(cpu, try_both, &a, 2000), "processor %u did not answer", cpu);
		check(t, !a.absent_read, "processor %u read an absent page", cpu);
		check(t, !a.read_only_written, "processor %u wrote to a read-only page", cpu);
	}
	check(t, this_cpu()->fixup_count == before + 2, "fix-ups counted: %llu, not 2",
	      (unsigned long long)(this_cpu()->fixup_count - before));
	platform_arena_protect(0, 2, ARENA_READ_WRITE);
}

static bool skip_ud2(struct pt_regs *regs, u64 addr)
{
	regs->ip += 2;
	regs->ax = 0x600d;
	return true;
}

TEST(selftest, hook_taken, "a hook takes the exception of its vector", 0)
{
	u64 ax = 0;

	trap_set_hook(X86_TRAP_UD, skip_ud2);
	__asm__ volatile("ud2" : "+a"(ax)::"memory");
	trap_set_hook(X86_TRAP_UD, NULL);
	check(t, ax == 0x600d, "#UD did not reach its hook");
}

TEST(selftest, barrier, "a barrier lets nobody through before all have come, and does not wait for ever", 0)
{
	struct cpu_barrier two = {.n = 2}, one = {.n = 1};

	check(t, !cpu_barrier_wait(&two, tsc_from_us(100)), "one of two came through alone");
	check(t, cpu_barrier_wait(&one, tsc_from_us(100)), "the only one did not come through");
}

static void say_cpu(void *arg)
{
	*(u32 *)arg = smp_processor_id() + 1;
}

TEST(selftest, processors_answer, "each processor runs what is posted to it, as itself", 0)
{
	unsigned seen = 0;

	for (unsigned cpu = 0; cpu < platform_cpus(); cpu++) {
		u32 said = 0;

		if (cpu == platform_control_cpu()) {
			say_cpu(&said);
		} else if (!platform_cpu_usable(cpu)) {
			continue;
		} else {
			check(t, platform_post(cpu, say_cpu, &said) == 0, "post to %u refused", cpu);
			check(t, platform_wait(cpu, 2000) == 0, "processor %u did not answer", cpu);
		}
		check(t, said == cpu + 1, "processor %u said that it was %d", cpu, (int)said - 1);
		seen++;
	}
	check_note(t, "%u of %u processors", seen, platform_cpus());
}
