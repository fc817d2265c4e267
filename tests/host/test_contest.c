// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a contest's verdicts are worth: a waiter that is only slow must not look like a lost
 * hand-off, and a lost hand-off must not pass. The locks are the core's own; the question of their
 * spin loop is answered here, because that is where a waiter can be made to sleep, and broken locks
 * are made of sound ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "host.h"
#include "../../src/bench/tsc.h"
#include "../../src/cpu/percpu.h"
#include "../../src/osq/contest.h"
#include "../../src/platform.h"

bool __wrap_platform_cpus_shared(void);
static bool shared;

bool __wrap_platform_cpus_shared(void)
{
	return shared;
}

#define SLOW_S 4 /* longer than a contest's patience with threads */
#define WINDOW_US 50000

/* -------------------------------------------------------------------- the question */

static int naps;	 /* still to take by the first who waits */
static bool leave_then; /* what the question answers after a nap */

__attribute__((used)) static u64 answer(void)
{
	struct timespec nap = {SLOW_S, 0};

	if (!__atomic_exchange_n(&naps, 0, __ATOMIC_SEQ_CST))
		return 0;
	nanosleep(&nap, NULL);
	return leave_then;
}

/* The convention of vcpu_is_preempted(): all registers but rax are kept. */
void asked(void);
__asm__("asked:\n\t"
	"push %rbp\n\tmov %rsp, %rbp\n\t"
	"push %rdi\n\tpush %rsi\n\tpush %rdx\n\tpush %rcx\n\tpush %r8\n\tpush %r9\n\tpush %r10\n\t"
	"push %r11\n\tand $-16, %rsp\n\tcall answer\n\tlea -64(%rbp), %rsp\n\t"
	"pop %r11\n\tpop %r10\n\tpop %r9\n\tpop %r8\n\tpop %rcx\n\tpop %rdx\n\tpop %rsi\n\tpop %rdi\n\t"
	"pop %rbp\n\tret");

/* -------------------------------------------------------------------- locks */

/* A sound lock in which one processor once forgets to unlock, and then comes no more. */
static const struct lock_variant *sound;
static u32 forget; /* unlocks until then */
static int comes_no_more; /* its number */

static bool forgetful_lock(void)
{
	if (comes_no_more == (int)smp_processor_id())
		return false;
	return sound->lock();
}

static void forgetful_unlock(void)
{
	if (forget && !--forget)
		comes_no_more = (int)smp_processor_id();
	else
		sound->unlock();
}

static const struct lock_variant *named(const char *name)
{
	for (unsigned i = 0; i < lock_variant_count; i++) {
		if (!strcmp(lock_variants[i]->name, name))
			return lock_variants[i];
	}
	fail_msg("no lock is named %s", name);
	return NULL;
}

/* `hold` 0: as many turns as the window has room for; the window's length: one turn each. */
static struct contest contest_of(const struct lock_variant *v, unsigned n, u64 hold, char *why)
{
	static u16 cpus[8];
	struct contest c = {.v = v, .cpus = cpus, .n = n, .window = tsc_from_us(WINDOW_US),
			    .hold = hold};

	assert_int_equal(contest_cpus(cpus, n), n);
	contest_run(&c);
	why[0] = 0;
	contest_clean(&c, why, 160);
	printf("%-8s %u processors: %llu acquired, %llu left: %s\n", v->name, n,
	       (unsigned long long)c.acquired, (unsigned long long)c.aborted, why[0] ? why : "clean");
	return c;
}

/* -------------------------------------------------------------------- the verdicts */

static void slowness_is_no_lost_hand_off(void **state)
{
	static const char *const forms[] = {"linux", "clh"};
	char why[160];

	(void)state;
	pv_vcpu_is_preempted = asked;
	for (unsigned i = 0; i < 2; i++) {
		struct contest c;

		leave_then = i;
		naps = 1;
		c = contest_of(named(forms[i]), 2 + i, tsc_from_us(WINDOW_US), why);
		assert_int_equal(naps, 0); /* it did sleep in its wait */
		assert_true(tsc_to_ns(c.ticks) > 1000000000ull * (SLOW_S - 1));
		assert_string_equal(why, "");
	}
	pv_vcpu_is_preempted = native_vcpu_is_preempted;
}

static void a_lost_hand_off_is_found(void **state)
{
	static const char *const forms[] = {"merged", "clh"};
	char why[160];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
		struct lock_variant v;

		sound = named(forms[i]);
		v = *sound;
		v.lock = forgetful_lock;
		v.unlock = forgetful_unlock;
		forget = 10;
		comes_no_more = -1;
		contest_of(&v, 2, 0, why);
		assert_non_null(strstr(why, "a hand-off was lost"));
	}
}

/* -------------------------------------------------------------------- order */

/* Processor 0 does not queue: it takes the word as soon as it is free. The others take it in order. */
static u32 word;

static void take_word(void)
{
	while (__atomic_exchange_n(&word, 1, __ATOMIC_SEQ_CST))
		__builtin_ia32_pause();
}

static bool barging_lock(void)
{
	if (smp_processor_id())
		sound->lock();
	take_word();
	return true;
}

static void barging_unlock(void)
{
	__atomic_store_n(&word, 0, __ATOMIC_RELEASE);
	if (smp_processor_id())
		sound->unlock();
}

static void overtaking_is_found(void **state)
{
	static const char *const forms[] = {"linux", "merged", "clh", "mcs"};
	u16 cpus[2];
	char why[160];

	(void)state;
	contest_cpus(cpus, 2);
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(forms); i++) {
		struct lock_variant v = *(sound = named(forms[i / 2]));
		const struct contest fresh = {.v = &v, .cpus = cpus, .n = 2, .order = true,
					      .window = tsc_from_us(WINDOW_US)};
		struct contest c = {0};

		if (i & 1) {
			v.lock = barging_lock;
			v.unlock = barging_unlock;
		}
		why[0] = 0;
		/* On a busy machine the two may not meet at once. */
		for (unsigned k = 0; k < 40 && (!c.ordered || c.overtaken < (i & 1)); k++) {
			c = fresh;
			contest_run(&c);
		}
		contest_clean(&c, why, sizeof(why));
		printf("%-8s %llu judged, %llu overtaken\n", i & 1 ? "barging" : v.name,
		       (unsigned long long)c.ordered, (unsigned long long)c.overtaken);
		assert_true(c.ordered > 0);
		assert_int_equal(!!c.overtaken, i & 1);
		assert_int_equal(!!strstr(why, "served before another"), i & 1);
	}
}

/* -------------------------------------------------------------------- starvation */

static u64 used; /* when processor 0 had the lock last */

/* Processor 1 waits politely until nobody else has wanted the lock for 300 ms. */
static bool starving_lock(void)
{
	if (!smp_processor_id())
		__atomic_store_n(&used, rdtsc_ordered(), __ATOMIC_RELAXED);
	while (smp_processor_id() && (s64)(rdtsc_ordered() -
		__atomic_load_n(&used, __ATOMIC_RELAXED)) < (s64)tsc_from_us(300000))
		__builtin_ia32_pause();
	return sound->lock();
}

static void starvation_is_found(void **state)
{
	u16 cpus[2];

	(void)state;
	contest_cpus(cpus, 2);
	for (unsigned starving = 0; starving < 2; starving++) {
		struct lock_variant v = *(sound = named("clh"));
		const struct contest fresh = {.v = &v, .cpus = cpus, .n = 2, .stamps = true, .gap = 1000,
					      .window = tsc_from_us(1200000 + 1000000 * starving)};
		struct contest c = {0};

		if (starving)
			v.lock = starving_lock;
		/* A busy machine may take processor 0 away for so long. */
		for (unsigned i = 0; i < 4 && (!i || (starving && c.longest_wait < c.window / 2)); i++) {
			c = fresh;
			contest_run(&c);
		}
		printf("%s waited %llu us at most, the bound is %llu\n", starving ? "starving" : "clh",
		       (unsigned long long)tsc_to_ns(c.longest_wait) / 1000,
		       (unsigned long long)tsc_to_ns(contest_wait_bound(&c)) / 1000);
		/* More threads than cores are not judged. */
		shared = true;
		assert_int_equal(contest_wait_bound(&c), 0);
		shared = false;
		assert_true(contest_wait_bound(&c) >= tsc_from_us(1000000));
		assert_int_equal(c.longest_wait > contest_wait_bound(&c), starving);
	}
}

/* -------------------------------------------------------------------- the clocks */

/* What subtracts the stamps of two processors asks first; what needs one clock goes on. */
static void skewed_clocks_are_not_subtracted(void **state)
{
	static const struct {
		s64 offset;
		u64 error;
		bool comparable; /* after all of them so far */
	} cpus_found[] = {{-90, 100, true}, {30, 400, true}, {-150, 140, false}, {0, 100, false}};
	u16 cpus[2];
	struct tsc_info saved = tsc_info;
	struct contest c;

	(void)state;
	tsc_info.skewed = false;
	tsc_info.skew_known = true;
	for (unsigned i = 0; i < ARRAY_SIZE(cpus_found); i++) {
		tsc_note_skew(cpus_found[i].offset, cpus_found[i].error);
		assert_int_equal(tsc_comparable(), cpus_found[i].comparable);
	}
	contest_cpus(cpus, 2);
	for (unsigned skewed = 0; skewed < 2; skewed++) {
		tsc_info.skewed = skewed;
		/* On a busy machine the two may not meet at once. */
		for (unsigned i = 0; i < 20; i++) {
			c = (struct contest){.v = named("clh"), .cpus = cpus, .n = 2, .stamps = true,
					     .hold = 200, .gap = 200,
					     .window = tsc_from_us(WINDOW_US)};
			contest_run(&c);
			if (c.handoffs && c.together)
				break;
		}
		assert_true(c.acquired > 0);
		assert_true(c.ticks >= c.window);
		assert_int_equal(!c.handoffs, skewed);
		assert_int_equal(!c.together, skewed);
	}
	tsc_info.skewed = false;
	tsc_info.skew_known = false;
	assert_false(tsc_comparable());
	tsc_info = saved;
}

/* -------------------------------------------------------------------- all of them stuck */

static bool stuck; /* this is the process that gets stuck */

/* One that forgets and then waits for itself takes everybody along: no contestant can tell. */
static void a_contest_that_stands_ends_the_program(void **state)
{
	struct lock_variant v;
	char why[160];
	int status;

	(void)state;
	if (!stuck) {
		status = system("/proc/$PPID/exe stuck");
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 3);
		return;
	}
	v = *(sound = named("merged"));
	v.unlock = forgetful_unlock;
	forget = 10;
	comes_no_more = -1;
	contest_of(&v, 2, 0, why);
}

static int start(void **state)
{
	(void)state;
	host_quiet = true;
	if (host_start(3, NULL))
		return -1;
	tsc_calibrate();
	osq_choose_backend();
	return osq_init();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slowness_is_no_lost_hand_off),
		cmocka_unit_test(overtaking_is_found),
		cmocka_unit_test(starvation_is_found),
		cmocka_unit_test(skewed_clocks_are_not_subtracted),
		cmocka_unit_test(a_contest_that_stands_ends_the_program),
		cmocka_unit_test(a_lost_hand_off_is_found), /* leaves its locks taken */
	};

	(void)argv;
	setvbuf(stdout, NULL, _IOLBF, 0);
	stuck = argc > 1;
	if (stuck) {
		host_watch_s = 2;
		start(NULL);
		a_contest_that_stands_ends_the_program(NULL);
		return 0;
	}
	return cmocka_run_group_tests_name("contest", tests, start, NULL);
}
