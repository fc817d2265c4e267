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
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "host.h"
#include "../../src/bench/tsc.h"
#include "../../src/cpu/percpu.h"
#include "../../src/osq/contest.h"
#include "../../src/platform.h"

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
		contest_of(&v, 2 + i % 2, 0, why);
		assert_non_null(strstr(why, "a hand-off was lost"));
	}
}

static int start(void **state)
{
	(void)state;
	host_quiet = true;
	if (host_start(4, NULL))
		return -1;
	tsc_calibrate();
	osq_choose_backend();
	return osq_init();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slowness_is_no_lost_hand_off),
		cmocka_unit_test(a_lost_hand_off_is_found),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests_name("contest", tests, start, NULL);
}
