/* SPDX-License-Identifier: GPL-2.0-only */
#include "contest.h"
#include "atomic.h"
#include "../bench/stats.h"
#include "../bench/tsc.h"
#include "../cpu/percpu.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"

struct contestant {
	struct percpu *percpu;
	u64 acquired, aborted, intruders;
	u64 first, last, longest_wait, longest_turn;
	u64 handoffs;
	u32 number; /* place + 1 */
	u32 seed;
	u32 started, done;
	u32 alone, lost; /* told that all others are done; got no lock even so */
	/* Which of its turns it is in, has ended, has left the queue in. */
	u32 turn, ended, left;
	u64 overtaken, ordered;
	u64 lines[PMU_EVENTS];
	u32 uncounted;
	u64 handoff[CONTEST_SAMPLES];
} __aligned(CACHE_LINE);

#define QUEUED 500 /* ticks from lock() until one surely waits: two or three line transfers */

/* What the lock guards. */
static struct {
	u64 counter;
	u64 stamp; /* taken by the holder before its unlock */
	u32 holder;
	u64 noted; /* place + 1 << 32 | turn of one who was seen in the queue */
} guarded __aligned(CACHE_LINE);

static struct contestant *contestants; /* by place in contest.cpus */
static u64 *handoff_pool;
static struct cpu_barrier gate __aligned(CACHE_LINE);

__cold int contest_init(void)
{
	contestants = platform_alloc(platform_cpus() * sizeof(*contestants));
	handoff_pool = platform_alloc(platform_cpus() * sizeof(u64) * CONTEST_SAMPLES);
	return contestants && handoff_pool ? 0 : -ENOMEM;
}

__cold unsigned contest_cpus(u16 *cpus, unsigned want)
{
	unsigned self = smp_processor_id(), n = 0;

	cpus[n++] = (u16)self;
	for (unsigned cpu = 0; cpu < platform_cpus() && n < want; cpu++) {
		if (cpu != self && platform_cpu_usable(cpu))
			cpus[n++] = (u16)cpu;
	}
	return n;
}

/* Never 0, which xorshift32 would keep. */
u32 contest_dice(unsigned place)
{
	u32 seed = (u32)(options.seed ^ options.seed >> 32) ^ 0x9e3779b9u * (place + 1);

	return seed ? seed : 1;
}

/* xorshift32 */
static u32 chance(struct contestant *me)
{
	u32 x = me->seed;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return me->seed = x;
}

/* -------------------------------------------------------------------- one processor */

/* Tell somebody to leave: through the scheduler's flag, and through vcpu_is_preempted() where the
 * tests answer it. Being told while not waiting is possible, and harmless. */
static void disturb(const struct contest *c, struct contestant *me)
{
	u32 dice = chance(me);
	unsigned victim = (dice >> 8) % c->n;

	if (dice % c->leave)
		return;
	if (pv_vcpu_is_preempted == injected_vcpu_is_preempted && (dice >> 7 & 1))
		injected_preempted[c->cpus[victim]] ^= 1;
	else if (contestants[victim].percpu)
		WRITE_ONCE(contestants[victim].percpu->need_resched, 1);
}

static __always_inline void inside(const struct contest *c, struct contestant *me, u64 before,
				   u64 now)
{
	u64 released = guarded.stamp;

	/* Somebody who came while the lock was free, or just then, did not wait in the queue. */
	if (c->stamps && c->comparable && before + QUEUED < released && released < now)
		me->handoff[me->handoffs++ % CONTEST_SAMPLES] = now - released;
	me->intruders += guarded.holder != 0;
	guarded.holder = me->number;
	guarded.counter++;
	if (c->leave)
		disturb(c, me);
	if (c->hold)
		tsc_spin(c->hold);
	me->intruders += guarded.holder != me->number;
	guarded.holder = 0;
	me->acquired++;
}

/*
 * We left the queue. If that was because somebody found all others done and called us (`alone`), the
 * lock is free, and a second try gets it at once, however slow we are: every form looks for the lock
 * before it looks for a reason to leave. Refused again, we wait for one who is no longer there: a
 * hand-off was lost. The flag is cleared before `alone` is read and set after it is written.
 */
static noinline __cold void refused(const struct contest *c, struct contestant *me)
{
	u32 *flag = &me->percpu->need_resched;

	me->aborted++;
	__atomic_exchange_n(flag, 0, __ATOMIC_SEQ_CST);
	if (!READ_ONCE(me->alone))
		return;
	WRITE_ONCE(*flag, 1);
	if (c->v->lock())
		c->v->unlock();
	else
		me->lost = 1;
}

static __always_inline void turn(const struct contest *c, struct contestant *me, u64 before)
{
	u64 now;

	if (!c->v->lock()) {
		refused(c, me);
		return;
	}
	now = rdtsc_ordered();
	barrier();
	if (c->stamps)
		me->longest_wait = max_of(me->longest_wait, now - before);
	inside(c, me, before, now);
	if (c->stamps)
		guarded.stamp = rdtsc_ordered();
	c->v->unlock();
}

/* -------------------------------------------------------------------- the order */

/* By the holder. In its turn k before and after it is seen as the last: it joined in that turn, for
 * a turn ends before the next begins, and nobody but us can leave by way of the lock. */
static __cold void note_last(const struct contest *c, const struct contestant *me)
{
	u32 last = c->v->tail();

	for (unsigned i = 0; i < c->n; i++) {
		struct contestant *p = &contestants[i];
		u32 k = READ_ONCE(p->turn);

		if (c->cpus[i] + 1u != last || p == me)
			continue;
		if (READ_ONCE(p->ended) != k && c->v->tail() == last && READ_ONCE(p->turn) == k)
			WRITE_ONCE(guarded.noted, (u64)p->number << 32 | k);
	}
}

/* We were served, and one noted before we asked had not come to an end. It may be about to say that
 * it left; else it will be served, after us. */
static __cold void judge_order(struct contestant *me, u64 noted)
{
	struct contestant *p = &contestants[(noted >> 32) - 1];
	u64 start = rdtsc_ordered(), bound = tsc_from_us(2000000);

	while ((s32)(smp_load_acquire(&p->ended) - (u32)noted) < 0) {
		if (rdtsc_ordered() - start > bound)
			return;
		cpu_relax();
	}
	me->overtaken += (s32)(READ_ONCE(p->left) - (u32)noted) < 0;
}

/* A turn that is not timed. */
static __cold void turn_in_order(const struct contest *c, struct contestant *me, u64 before)
{
	u64 noted = READ_ONCE(guarded.noted);
	bool early = false;

	WRITE_ONCE(me->turn, me->turn + 1);
	if (!c->v->lock()) {
		WRITE_ONCE(me->left, me->turn);
		smp_store_release(&me->ended, me->turn);
		refused(c, me);
		return;
	}
	WRITE_ONCE(me->ended, me->turn);
	if (noted && noted >> 32 != me->number) {
		early = (s32)(READ_ONCE(contestants[(noted >> 32) - 1].ended) - (u32)noted) < 0;
		me->ordered++;
	}
	inside(c, me, before, before);
	note_last(c, me);
	c->v->unlock();
	if (early)
		judge_order(me, noted);
}

/* -------------------------------------------------------------------- to the end */

/* When to look after one who does not come, and when to stop. A virtual processor or a thread may
 * wait long for its turn; what is concluded does not depend on these times. */
static u64 patience_us(void)
{
	return platform_ring0() && boot_cpu_data.hv == HV_NONE && !boot_cpu_data.emulated ? 200000
											  : 3000000;
}
#define GIVE_UP_MS 30000 /* what has not run for so long is not merely slow */

/* The one contestant that is not done, or the last of several; NULL when all are. */
static __cold struct contestant *straggler(const struct contest *c, unsigned *count)
{
	struct contestant *last = NULL;

	*count = 0;
	for (unsigned i = 0; i < c->n; i++) {
		if (!__atomic_load_n(&contestants[i].done, __ATOMIC_ACQUIRE)) {
			last = &contestants[i];
			++*count;
		}
	}
	return last;
}

/* Whoever is done calls the others out of the queue, one by one, when they do not come: a lost
 * hand-off ends in a failed check, not in a machine that stands. Only the last one is told that it
 * is alone, because only it can know that nobody who is merely slow has the lock. */
static __cold void see_them_out(const struct contest *c)
{
	u64 start = rdtsc_ordered(), gone;
	u64 grace = tsc_from_us(patience_us());
	struct contestant *p;
	unsigned count;

	while ((p = straggler(c, &count)) && (gone = rdtsc_ordered() - start) < 2 * grace) {
		if (gone > grace && p->percpu) {
			if (count == 1)
				__atomic_store_n(&p->alone, 1, __ATOMIC_SEQ_CST);
			WRITE_ONCE(p->percpu->need_resched, 1);
		}
		cpu_relax();
	}
}

struct ticket_of_admission {
	struct contest *c;
	unsigned place;
};
static struct ticket_of_admission *tickets;

/* Turns until the window is over. */
static void take_turns(const struct contest *c, struct contestant *me)
{
	u64 before, now = rdtsc_ordered(), end = now + c->window;

	me->first = now;
	while ((s64)(end - now) > 0) {
		if (c->order)
			turn_in_order(c, me, now);
		else
			turn(c, me, now);
		if (c->gap)
			tsc_spin(c->gap);
		before = now;
		now = rdtsc_ordered();
		me->longest_turn = max_of(me->longest_turn, now - before);
	}
	me->last = now;
}

static void compete(void *arg)
{
	struct ticket_of_admission *t = arg;
	struct contest *c = t->c;
	struct contestant *me = &contestants[t->place];
	unsigned long flags = platform_irq_save();
	struct pmu_saved saved;

	me->percpu = this_cpu();
	me->percpu->need_resched = 0;
	me->uncounted = !c->pmu || pmu_begin(c->pmu, &saved);
	if (cpu_barrier_wait(&gate, tsc_from_us(2 * patience_us()))) {
		me->started = 1;
		take_turns(c, me);
	}
	if (!me->uncounted)
		pmu_end(c->pmu, &saved, me->lines);
	__atomic_store_n(&me->done, 1, __ATOMIC_RELEASE);
	see_them_out(c);
	platform_irq_restore(flags);
}

/* -------------------------------------------------------------------- all of them */

static __cold void spread_of(struct contest *c)
{
	u64 mean = c->acquired / c->n, squares = 0;

	for (unsigned i = 0; i < c->n; i++) {
		s64 d = (s64)(contestants[i].acquired - mean);

		squares += (u64)(d * d);
	}
	c->deviation = mean ? isqrt(squares / c->n) * 1000 / mean : 0;
}

static __cold void gather_one(struct contest *c, struct contestant *p)
{
	c->acquired += p->acquired;
	c->aborted += p->aborted;
	c->intruders += p->intruders;
	c->least = min_of(c->least, p->acquired);
	c->most = max_of(c->most, p->acquired);
	c->longest_wait = max_of(c->longest_wait, p->longest_wait);
	c->longest_turn = max_of(c->longest_turn, p->longest_turn);
	c->late += !p->started;
	c->absent += p->started && !p->done;
	c->lost += p->lost;
	c->overtaken += p->overtaken;
	c->ordered += p->ordered;
	c->uncounted += p->uncounted;
	for (unsigned e = 0; e < PMU_EVENTS; e++)
		c->lines[e] += p->lines[e];
	for (unsigned s = 0; s < min_of(p->handoffs, (u64)CONTEST_SAMPLES); s++)
		c->handoff[c->handoffs++] = p->handoff[s];
}

static __cold void gather(struct contest *c)
{
	u64 first = ~0ull, last_first = 0, first_last = ~0ull, last = 0, longest = 0;

	c->handoff = handoff_pool;
	c->least = ~0ull;
	for (unsigned i = 0; i < c->n; i++) {
		struct contestant *p = &contestants[i];

		gather_one(c, p);
		if (!p->started)
			continue;
		first = min_of(first, p->first);
		last_first = max_of(last_first, p->first);
		first_last = min_of(first_last, p->last);
		last = max_of(last, p->last);
		longest = max_of(longest, p->last - p->first);
	}
	for (unsigned i = 0; i < c->n; i++) {
		if (contestants[i].percpu)
			contestants[i].percpu->need_resched = 0;
		injected_preempted[c->cpus[i]] = 0;
	}
	c->ticks = !c->comparable ? longest : last > first ? last - first : 0;
	c->together = c->comparable && first_last > last_first && last > first
			      ? (first_last - last_first) * 1000 / (last - first)
			      : 0;
	c->miscounted = (s64)(guarded.counter - c->acquired);
	spread_of(c);
}

static __cold bool dirty(const struct contest *c)
{
	if (!c->v->idle())
		return true;
	for (unsigned i = 0; i < c->n && c->v->node_idle; i++) {
		if (!c->v->node_idle(c->cpus[i]))
			return true;
	}
	return false;
}

__cold u64 contest_wait_bound(const struct contest *c)
{
	if (boot_cpu_data.emulated || platform_cpus_shared() || !c->v->fifo)
		return 0;
	return tsc_from_us(platform_ring0() ? 10000 : 1000000) + c->n * c->hold;
}

__cold int contest_run(struct contest *c)
{
	unsigned self = smp_processor_id(), place = c->n;

	if (!tickets)
		tickets = platform_alloc(platform_cpus() * sizeof(*tickets));
	if (!tickets || !contestants)
		return -ENOMEM;
	c->order = c->order && c->v->tail && !c->v->anonymous;
	c->comparable = tsc_comparable();
	memset(&guarded, 0, sizeof(guarded));
	gate = (struct cpu_barrier){.n = c->n};
	for (unsigned i = 0; i < c->n; i++) {
		memset(&contestants[i], 0, sizeof(contestants[i]));
		contestants[i].number = i + 1;
		contestants[i].seed = contest_dice(i);
		tickets[i] = (struct ticket_of_admission){c, i};
		if (c->cpus[i] == self)
			place = i;
	}
	for (unsigned i = 0; i < c->n; i++) {
		if (i != place)
			platform_post(c->cpus[i], compete, &tickets[i]);
	}
	if (place < c->n)
		compete(&tickets[place]);
	for (unsigned i = 0; i < c->n; i++) {
		if (i != place)
			platform_wait(c->cpus[i], GIVE_UP_MS);
	}
	gather(c);
	c->left_dirty = dirty(c);
	return c->absent || c->late ? -ENODEV : 0;
}

__cold bool contest_clean(const struct contest *c, char *why, size_t len)
{
	if (c->intruders)
		mc_snprintf(why, len, "%s: two holders at once, %llu times", c->v->name,
			    (unsigned long long)c->intruders);
	else if (c->miscounted)
		mc_snprintf(why, len, "%s: the counter is off by %lld after %llu acquisitions",
			    c->v->name, (long long)c->miscounted, (unsigned long long)c->acquired);
	else if (c->lost)
		mc_snprintf(why, len, "%s: a hand-off was lost: the last waiter got no lock, all "
			    "others being done", c->v->name);
	else if (c->overtaken)
		mc_snprintf(why, len, "%s: %llu times one was served before another that had been "
			    "seen in the queue before it came", c->v->name,
			    (unsigned long long)c->overtaken);
	else if (c->absent)
		mc_snprintf(why, len, "%s: %u of %u processors did not come back", c->v->name,
			    c->absent, c->n);
	else if (c->left_dirty)
		mc_snprintf(why, len, "%s: the tail or a node is not idle afterwards", c->v->name);
	else
		return true;
	return false;
}

/* -------------------------------------------------------------------- the physical limit */

#define PING_ROUNDS 64

static struct {
	s32 ball;
	unsigned samples;
	bool lost;
} ping __aligned(CACHE_LINE);

/* The loop of the locks: read once, compare, again. Bounded by count: reading time in it would be
 * measured too. */
static __always_inline bool await(s32 want)
{
	for (u32 i = 0; i < 1u << 24; i++) {
		if (osq_read(ping.ball) == want)
			return true;
	}
	return false;
}

static void pong(void *arg)
{
	unsigned long flags = platform_irq_save();

	for (s32 i = 0; i < (s32)(ping.samples * PING_ROUNDS); i++) {
		if (!await(2 * i + 1))
			break;
		osq_write(ping.ball, 2 * i + 2);
	}
	platform_irq_restore(flags);
}

struct pinging {
	u64 *samples;
	unsigned taken;
};

static void do_ping(void *arg)
{
	struct pinging *p = arg;
	unsigned long flags = platform_irq_save();
	s32 i = 0;

	for (unsigned s = 0; s < ping.samples; s++) {
		u64 start = tsc_begin();

		for (unsigned r = 0; r < PING_ROUNDS; r++, i++) {
			osq_write(ping.ball, 2 * i + 1);
			if (!await(2 * i + 2)) {
				platform_irq_restore(flags);
				return;
			}
		}
		p->samples[p->taken++] = (tsc_end() - start) / (2 * PING_ROUNDS);
	}
	platform_irq_restore(flags);
}

__cold unsigned line_transfer(unsigned a, unsigned b, u64 *samples, unsigned count)
{
	struct pinging p = {samples, 0};
	unsigned self = smp_processor_id();

	if (b == self) {
		b = a;
		a = self;
	}
	ping.ball = 0;
	ping.samples = count;
	if (b == self || platform_post(b, pong, NULL))
		return 0;
	on_cpu(a, do_ping, &p, 3000);
	platform_wait(b, 3000);
	return p.taken;
}
