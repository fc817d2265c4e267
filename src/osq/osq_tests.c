/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The locks in the image: each variant alone, handed over between two, in order through all, and in
 * contests with and without waiters that leave. What cannot be reached by running is in
 * exits_tests.c (single moments, scripted) and tests/host/test_interleave.c (all interleavings).
 */
#include "contest.h"
#include "trace.h"
#include "../bench/bench.h"
#include "../bench/tsc.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"

#define MAX_CONTESTANTS 64 /* in tests: more only take longer */
#define EMULATED_US	30000
/* Bounds of waits, for a lock that is broken; a slow processor must not meet them. */
#define JOIN_US		10000000
#define CALL_US		500000
#define COME_BACK_MS	30000

static bool broken[16], tried[16]; /* variants that failed to hand over: no contest for them */

/* A window in which something happens: emulated processors take turns on the host's. */
static u64 window(void)
{
	return tsc_from_us(boot_cpu_data.emulated ? EMULATED_US : options.quick ? 2000 : 10000);
}

static bool contests_mean_something(struct test_run *t)
{
	if (options.icount < 0)
		return true;
	check_skip(t, "under -icount one processor gets everything: free-running contests mean "
		      "nothing there");
	return false;
}

/* One that is lost, with its waiter inside, would wait for ever. */
static bool hands_over(struct test_run *t, unsigned i);

TEST(osq, alone, "one processor locks, unlocks, and leaves everything idle", 0)
{
	for (unsigned i = 0; i < lock_variant_count; i++) {
		const struct lock_variant *v = lock_variants[i];
		unsigned got = 0;

		if (!hands_over(t, i))
			continue;
		for (unsigned n = 0; n < 1000; n++) {
			got += v->lock();
			v->unlock();
		}
		check(t, got == 1000, "%s: a free lock was refused %u times", v->name, 1000 - got);
		check(t, v->idle() && (!v->node_idle || v->node_idle(smp_processor_id())),
		      "%s: not idle after the last unlock", v->name);
	}
}

/* -------------------------------------------------------------------- choreographed */

static struct {
	const struct lock_variant *v;
	struct percpu *percpu[MAX_CONTESTANTS];
	u16 order[MAX_CONTESTANTS]; /* in which the lock was got */
	u32 got;
	u32 refused;
} queue;

struct waiter {
	u32 place;
};

static void wait_in_queue(void *arg)
{
	u32 place = ((struct waiter *)arg)->place;
	unsigned long flags = platform_irq_save();

	this_cpu()->need_resched = 0;
	__atomic_store_n(&queue.percpu[place], this_cpu(), __ATOMIC_RELEASE);
	if (queue.v->lock()) {
		queue.order[queue.got] = (u16)place;
		queue.got++;
		queue.v->unlock();
	} else {
		__atomic_fetch_add(&queue.refused, 1, __ATOMIC_RELAXED);
	}
	this_cpu()->need_resched = 0;
	platform_irq_restore(flags);
}

/* Post one waiter and see it in the queue. */
static bool joins(unsigned cpu, struct waiter *w)
{
	u32 before = queue.v->tail();
	u64 start = rdtsc_ordered();

	if (platform_post(cpu, wait_in_queue, w))
		return false;
	while (queue.v->tail() == before) {
		if (rdtsc_ordered() - start > tsc_from_us(JOIN_US))
			return false;
		cpu_relax();
	}
	return true;
}

/* Wait for all. When nothing moves, the first in the queue is told to leave, and only that one: it
 * has been handed the lock and takes it, however slow it is, or the hand-off was lost. */
static void collect(const u16 *cpus, unsigned n)
{
	u64 start = rdtsc_ordered();
	u32 ended;

	while ((ended = READ_ONCE(queue.got) + READ_ONCE(queue.refused)) < n &&
	       rdtsc_ordered() - start < tsc_from_us(2 * CALL_US)) {
		struct percpu *first = __atomic_load_n(&queue.percpu[ended], __ATOMIC_ACQUIRE);

		if (first && rdtsc_ordered() - start > tsc_from_us(CALL_US))
			WRITE_ONCE(first->need_resched, 1);
		cpu_relax();
	}
	for (unsigned i = 0; i < n; i++)
		platform_wait(cpus[i], COME_BACK_MS);
}

/* The caller holds the lock while `n` processors line up in the order of cpus[]. */
static bool line_up(struct test_run *t, const struct lock_variant *v, const u16 *cpus, unsigned n)
{
	static struct waiter waiters[MAX_CONTESTANTS];
	bool all = true;

	memset(&queue, 0, sizeof(queue));
	queue.v = v;
	if (!check(t, v->lock(), "%s: a free lock was refused", v->name))
		return false;
	for (unsigned i = 0; i < n && all; i++) {
		waiters[i].place = i;
		all = joins(cpus[i], &waiters[i]);
		check(t, all, "%s: processor %u did not join the queue", v->name, cpus[i]);
	}
	v->unlock();
	collect(cpus, n);
	return all;
}

/* A lock that stays taken after its unlock would be waited for without an end. */
static bool releases(const struct lock_variant *v)
{
	if (v->lock())
		v->unlock();
	return v->idle();
}

/* Once for each variant, before anything that could wait for ever. */
static bool hands_over(struct test_run *t, unsigned i)
{
	const struct lock_variant *v = lock_variants[i];
	u16 other = (u16)another_cpu();

	if (!tried[i]) {
		tried[i] = true;
		broken[i] = !releases(v);
		if (!broken[i] && v->tail && other < MAX_CPUS && line_up(t, v, &other, 1))
			broken[i] = queue.got != 1 || queue.refused;
	}
	return check(t, !broken[i], "%s: osq_unlock() did not hand over to the waiter", v->name);
}

TEST(osq, handed_over, "unlock hands the lock to the one that waits", NEED_2_CPUS)
{
	for (unsigned i = 0; i < lock_variant_count; i++)
		hands_over(t, i);
}

static void shuffle(u16 *cpus, unsigned n, u32 *seed)
{
	for (unsigned i = n; i > 1; i--) {
		unsigned j = (*seed = *seed * 1664525 + 1013904223) / 65536 % i;
		u16 swap = cpus[i - 1];

		cpus[i - 1] = cpus[j];
		cpus[j] = swap;
	}
}

/* What seed= chose, so that a replay can be seen to be one. */
static void tell_arrivals(const struct lock_variant *v, const u16 *cpus, unsigned n)
{
	event_begin("choice");
	event_str("what", "arrival");
	event_str("variant", v->name);
	event_array("order");
	for (unsigned i = 0; i < n; i++)
		event_u64(NULL, cpus[i]);
	event_close();
	event_end();
}

TEST(osq, first_in_first_out, "the lock goes round in the order of arrival", NEED_2_CPUS)
{
	u16 cpus[MAX_CONTESTANTS + 1];
	unsigned n = contest_cpus(cpus, MAX_CONTESTANTS) - 1;
	u32 seed = contest_dice(0);
	/* Dozens of processors on a host's few line up in seconds, not microseconds. */
	unsigned rounds = boot_cpu_data.emulated && n > 16 ? 1 : 4;

	for (unsigned i = 0; i < lock_variant_count; i++) {
		const struct lock_variant *v = lock_variants[i];

		for (unsigned round = 0; round < rounds && v->fifo && hands_over(t, i); round++) {
			bool in_order = true;

			shuffle(cpus + 1, n, &seed);
			if (n > 1)
				tell_arrivals(v, cpus + 1, n);
			if (!line_up(t, v, cpus + 1, n))
				return;
			for (unsigned k = 0; k < n; k++)
				in_order &= queue.order[k] == k;
			check(t, in_order && queue.got == n,
			      "%s: %u waiters got it, in another order than they came", v->name,
			      queue.got);
		}
	}
}

/* -------------------------------------------------------------------- contests */

static void judge_starvation(struct test_run *t, const struct contest *c)
{
	u64 bound = contest_wait_bound(c);

	check(t, !bound || c->longest_wait <= bound, "%s: one waited %llu ticks, the bound is %llu",
	      c->v->name, (unsigned long long)c->longest_wait, (unsigned long long)bound);
}

/* Not all came to the start: the host gives them too little time. */
static bool slow_start(struct test_run *t, const struct contest *c)
{
	if (c->late)
		check_skip(t, "%u of %u processors did not run in time: no contest took place",
			   c->late, c->n);
	return c->late;
}

TEST(osq, contest, "a plain counter under each lock counts right, on all processors", 0)
{
	u16 cpus[MAX_CONTESTANTS];
	char why[160];
	u64 total = 0, ordered = 0;

	if (!contests_mean_something(t))
		return;
	for (unsigned i = 0; i < lock_variant_count; i++) {
		struct contest c = {.v = lock_variants[i], .cpus = cpus, .window = window(),
				    .stamps = true};

		if (!hands_over(t, i))
			continue;
		c.n = contest_cpus(cpus, MAX_CONTESTANTS);
		contest_run(&c);
		check(t, contest_clean(&c, why, sizeof(why)), "%s", why);
		if (slow_start(t, &c))
			return;
		check(t, c.acquired > 0, "%s: nobody got the lock", c.v->name);
		judge_starvation(t, &c);
		total += c.acquired;
		c = (struct contest){.v = c.v, .cpus = cpus, .n = c.n, .window = window(),
				     .order = c.v->fifo};
		contest_run(&c);
		check(t, contest_clean(&c, why, sizeof(why)), "%s", why);
		ordered += c.ordered;
	}
	check_note(t, "%llu acquisitions by %u processors, the order of %llu others judged",
		   (unsigned long long)total, contest_cpus(cpus, MAX_CONTESTANTS),
		   (unsigned long long)ordered);
}

/* Until `want` acquisitions in a queue that waiters leave, or the time is up. */
static u64 with_leavers(struct test_run *t, const struct lock_variant *v, u64 want, u64 *left)
{
	u16 cpus[MAX_CONTESTANTS];
	u64 start = rdtsc_ordered(), done = 0;
	char why[160];

	while (done < want && rdtsc_ordered() - start < tsc_from_us(3000000)) {
		struct contest c = {.v = v, .cpus = cpus, .window = window(), .leave = 4,
				    .order = true};

		c.n = contest_cpus(cpus, MAX_CONTESTANTS);
		contest_run(&c);
		if (!check(t, contest_clean(&c, why, sizeof(why)), "%s", why) || slow_start(t, &c))
			break;
		done += c.acquired;
		*left += c.aborted;
	}
	return done;
}

TEST(osq, waiters_leave, "waiters that leave the queue at any time break nothing", NEED_2_CPUS)
{
	u64 want = options.quick ? 2000 : 20000;
	u64 total = 0, left = 0;

	if (!contests_mean_something(t))
		return;
	event_begin("choice");
	event_str("what", "dice");
	event_u64("first", contest_dice(0));
	event_end();
	memset(&osq_exits, 0, sizeof(osq_exits));
	osq_count_exits = true;
	for (unsigned i = 0; i < lock_variant_count; i++) {
		if (lock_variants[i]->osq && hands_over(t, i))
			total += with_leavers(t, lock_variants[i], want, &left);
	}
	osq_count_exits = false;
	check(t, left > 0, "nobody ever left the queue: the unqueue path did not run");
	check_note(t, "%llu acquisitions, %llu left; handed over while leaving %llu, predecessor "
		      "changed %llu, last %llu, relinked %llu",
		   (unsigned long long)total, (unsigned long long)left,
		   (unsigned long long)osq_exits.locked_late,
		   (unsigned long long)osq_exits.step_a_retry, (unsigned long long)osq_exits.last,
		   (unsigned long long)osq_exits.relinked);
}

/* -------------------------------------------------------------------- vcpu_is_preempted */

/* `fn` must say "preempted" for processor `cpu` and no other after `set` marked it. */
static void one_and_no_other(struct test_run *t, const char *name, pv_fn fn, u8 *base, size_t stride)
{
	unsigned cpus = min_of(platform_cpus() + 2, 70u);

	for (unsigned marked = 0; marked < cpus; marked++) {
		u8 before = base[marked * stride];

		base[marked * stride] = 1;
		for (unsigned cpu = 0; cpu < cpus; cpu++)
			check(t, pv_call(fn, cpu) == (cpu == marked),
			      "%s: processor %u is marked, and %u is said to be %s", name, marked,
			      cpu, cpu == marked ? "running" : "preempted");
		base[marked * stride] = before;
	}
}

TEST(osq, back_ends, "each vcpu_is_preempted() reads the byte of the processor asked about", 0)
{
	u8 *saved_kvm = kvm_steal_time, *saved_xen = xen_runstate, *saved = injected_preempted;
	u8 *own = platform_alloc(72 * 64);

	if (!own) {
		check_error(t, "no memory");
		return;
	}
	/* Not the records that the hypervisor writes. */
	kvm_steal_time = xen_runstate = injected_preempted = own;
	one_and_no_other(t, "kvm", kvm_vcpu_is_preempted, own + 16, 64);
	one_and_no_other(t, "xen", xen_vcpu_is_preempted, own, 64);
	one_and_no_other(t, "injected", injected_vcpu_is_preempted, own, 1);
	memset(own, 0xff, 72 * 64);
	check(t, !pv_call(native_vcpu_is_preempted, 0), "native says preempted");
	check(t, !pv_call(hv_vcpu_is_preempted, 0), "Hyper-V's says preempted");
	kvm_steal_time = saved_kvm;
	xen_runstate = saved_xen;
	injected_preempted = saved;
	platform_free(own, 72 * 64);
}

TEST(osq, preemption_key, "the static key is on exactly where a function is installed", 0)
{
	bool installed = boot_cpu_has(X86_FEATURE_VCPUPREEMPT);

	if (!run_text_patched) {
		check_skip(t, "the text could not be patched: the key keeps its default, on");
		return;
	}
	check(t, (static_key_count(&vcpu_has_preemption.key) > 0) == installed,
	      "the key is %s and a function is %sinstalled",
	      installed ? "off" : "on", installed ? "" : "not ");
	check(t, static_key_sites(&vcpu_has_preemption.key) > 0, "the key has no site");
}

/* -------------------------------------------------------------------- counted */

static unsigned spin_length(struct test_run *t, const struct lock_variant *v)
{
	struct trace_loop *loop = platform_alloc(sizeof(*loop));
	unsigned count = 0;

	if (!loop) {
		check_error(t, "no memory for a listing");
		return 0;
	}
	v->probe->play_waiting();
	if (check(t, trace_round(v->probe->spin, loop), "%s: no round of the spin loop shows",
		  v->name))
		count = loop->count;
	platform_free(loop, sizeof(*loop));
	return count;
}

TEST(osq, argument_load, "without the argument load a spin is shorter by what the listing shows",
     NEED_PATCHED)
{
	unsigned load = spin_length(t, lock_variants[0]);
	unsigned c_code = spin_length(t, lock_variants[1]);
	unsigned key = spin_length(t, lock_variants[2]);

	if (boot_cpu_has(X86_FEATURE_VCPUPREEMPT)) {
		check_note(t, "a hypervisor answers here: all three load the argument");
		return;
	}
	check(t, key < load, "static_key executes %u instructions a spin, linux %u", key, load);
	check(t, c_code <= load, "c_code executes %u instructions a spin, linux %u", c_code, load);
	check_note(t, "instructions a spin: linux %u, c_code %u, static_key %u", load, c_code, key);
}

static void spin_n(void *ctx, unsigned n)
{
	((const struct lock_variant *)ctx)->probe->spin(n);
}

TEST(osq, icount_agrees, "QEMU's instruction count of a spin is that of the stepped listing",
     NEED_ICOUNT | NEED_PATCHED)
{
	for (unsigned i = 0; i < lock_variant_count; i++) {
		const struct lock_variant *v = lock_variants[i];
		unsigned stepped;
		u64 once, twice;

		if (!v->probe)
			continue;
		stepped = spin_length(t, v);
		once = bench_time(spin_n, (void *)v, 64);
		twice = bench_time(spin_n, (void *)v, 128);
		check(t, bench_units(twice - once) == 64ull * stepped,
		      "%s: 64 spins are %llu instructions, the listing says %u each", v->name,
		      (unsigned long long)bench_units(twice - once), stepped);
	}
}
