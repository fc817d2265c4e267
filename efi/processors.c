/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other processors, through MP Services. They enter once, load mcspin's tables, stay in a loop
 * that waits for work in memory, and return through the firmware at the end. One that hangs is
 * pulled out by NMI. Everything here that waits has a bound.
 */
#include "firmware.h"
#include "cpu.h"
#include "mp.h"
#include "../src/bench/tsc.h"
#include "../src/cpu/features.h"
#include "../src/cpu/percpu.h"
#include "../src/cpu/smp.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/run/options.h"
#include "../src/run/run.h"

#define ARRIVE_MS   5000 /* 1024 processors through INIT and SIPI one by one */
#define LEAVE_MS    2000
#define SYNC_MS	    5000 /* microseconds on a machine; an emulator's host may be busy */
#define PULL_OUT_MS 500
#define WATCH_S	    15 /* so that a hang ends in a report within 20 s */
#define WATCH_FW_S  60 /* a slow stick is no hang */
#define WATCH_EVERY 4096
#define POOL_BYTES  (24ul << 20)
#define REFEREE_STACK (128ul << 10) /* what UEFI promises the boot processor */

enum state {
	AWAY,	  /* not arrived, or not held by us */
	IDLE,	  /* in the loop */
	POSTED,	  /* has work */
	PULLED,	  /* taken out by NMI, or by a crash */
	LEFT,	  /* back in the firmware */
};

static struct processor {
	u32 state;
	u32 apic_id;
	u32 sync_asked, sync_done; /* generations of platform_sync_cores() */
	u32 pull;		   /* the NMI is for leaving */
	bool unusable, entered;
	UINTN number; /* MP Services' */
	void (*fn)(void *);
	void *arg;
	struct jump_context way_out;
	char why[120];
} __aligned(CACHE_LINE) *processors;

static struct mp_services *mp;
static EFI_EVENT finished;
static unsigned count = 1, total = 1;
static u32 leaving;

/* Referee mode: the processor that runs the tests, and what it runs; 0: the boot processor. */
static unsigned referee;
static bool referee_wanted, started;
static void (*referee_work)(void);
static u8 *referee_stack;

/* The watch over the control processor. */
static u64 life; /* TSC of its last sign */
static u32 watched, life_pulled;
static EFI_EVENT life_timer;

/* -------------------------------------------------------------------- counting */

static EFI_GUID mp_guid = MCSPIN_MP_SERVICES_GUID;

static void add(UINTN number, const struct mp_info *info)
{
	struct processor *p = &processors[count];

	if (info->status & MP_IS_BSP) {
		processors[0].number = number;
		processors[0].apic_id = (u32)info->id;
		return;
	}
	if (!(info->status & MP_IS_ENABLED) || !(info->status & MP_IS_HEALTHY))
		return;
	if (count == total || (options.cpus && count >= options.cpus))
		return;
	p->number = number;
	p->apic_id = (u32)info->id;
	count++;
}

void processors_start(void)
{
	UINTN all = 1, enabled = 1;
	struct mp_info info;

	mp = fw_protocol(&mp_guid);
	if (mp && mp->get_number(mp, &all, &enabled) != EFI_SUCCESS)
		mp = NULL;
	total = (unsigned)min_of(all, (UINTN)MAX_CPUS);
	/* The budget counts processors, so these few lines come before anything large. */
	processors = platform_alloc(total * sizeof(*processors));
	if (!processors) {
		total = 1;
		mp = NULL;
		static struct processor only;
		processors = &only;
	}
	processors[0].state = IDLE;
	for (UINTN n = 0; mp && n < total; n++) {
		if (mp->get_info(mp, n, &info) == EFI_SUCCESS)
			add(n, &info);
	}
}

unsigned platform_cpus(void)
{
	return count;
}

unsigned platform_control_cpu(void)
{
	return referee;
}

bool fw_callable(void)
{
	return !referee;
}

bool platform_cpu_usable(unsigned cpu)
{
	return cpu < count && !processors[cpu].unusable && (cpu || !referee);
}

bool platform_cpus_shared(void)
{
	return boot_cpu_data.hv != HV_NONE;
}

u32 platform_apic_id(unsigned cpu)
{
	return processors[cpu].apic_id;
}

static void give_up(unsigned cpu, const char *why)
{
	processors[cpu].unusable = true;
	if (why != processors[cpu].why)
		mc_snprintf(processors[cpu].why, sizeof(processors[cpu].why), "%s", why);
	crash_tell();
	run_worsen(RESULT_ERROR, "processor %u (APIC id %u) is not used any more: %s", cpu,
		   processors[cpu].apic_id, why);
}

/* A virtual processor waits for the host's turn, the longer the more of them there are. */
static u32 patience(u32 ms)
{
	bool virtual = boot_cpu_data.emulated || boot_cpu_data.hv != HV_NONE;

	return virtual ? ms * (1 + count / 8) : ms;
}

/* -------------------------------------------------------------------- in the loop */

void call_on_stack(void (*fn)(void *), void *arg, void *top); /* asm/trap_entry.S */

static void answer_sync(struct processor *p)
{
	u32 asked = __atomic_load_n(&p->sync_asked, __ATOMIC_ACQUIRE);

	if (asked != p->sync_done) {
		sync_core();
		__atomic_store_n(&p->sync_done, asked, __ATOMIC_RELEASE);
	}
}

static u64 raw_tsc(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

static u64 silence(void)
{
	u64 now = raw_tsc(), then = __atomic_load_n(&life, __ATOMIC_ACQUIRE);

	return now > then ? now - then : 0;
}

static bool control_hangs(void)
{
	u32 seconds = fw_inside && !referee ? WATCH_FW_S : WATCH_S;

	return __atomic_load_n(&watched, __ATOMIC_ACQUIRE) &&
	       silence() > tsc_from_us(patience(seconds * 1000) * 1000ul);
}

static void send_nmi(u32 apic_id);

/* By an idle processor: pull the control processor out, once; reset where even that fails. */
static void watch_control(void)
{
	u32 nobody = 0;

	if (!control_hangs())
		return;
	if (__atomic_compare_exchange_n(&life_pulled, &nobody, 1, false, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED)) {
		send_nmi(processors[referee].apic_id);
		return;
	}
	if (nobody == 1 && silence() > tsc_from_us(patience((WATCH_FW_S + 3) * 1000) * 1000ul))
		crash_reset("the control processor hung and did not even answer an NMI");
}

/* The firmware's timer interrupts the boot processor, unless interrupts are off: where that is the
 * only one, and where it waits in the firmware for the referee. */
static VOID EFIAPI on_life_timer(EFI_EVENT event, VOID *context)
{
	if (referee) {
		watch_control();
		return;
	}
	if (!control_hangs())
		return;
	__atomic_store_n(&watched, 0, __ATOMIC_RELEASE);
	platform_crash(NULL, X86_TRAP_NMI, "the only processor hung; the firmware's timer found it");
}

#define TIMER_100NS 10000000ul /* a second */

static void start_life_timer(void)
{
	if (FW(fw_bs->CreateEvent(EVT_TIMER | EVT_NOTIFY_SIGNAL, TPL_CALLBACK, on_life_timer, NULL,
				  &life_timer)) != EFI_SUCCESS)
		life_timer = NULL;
	else
		FW(fw_bs->SetTimer(life_timer, TimerPeriodic, TIMER_100NS));
}

static void end_life_timer(void)
{
	if (life_timer)
		FW(fw_bs->CloseEvent(life_timer));
	life_timer = NULL;
}

static void loop(void *arg)
{
	struct processor *p = arg;
	u32 idle = 0;

	while (!__atomic_load_n(&leaving, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != POSTED) {
			if (!(++idle % WATCH_EVERY))
				watch_control();
			cpu_relax();
			continue;
		}
		/* Rights in the arena may have changed since the last piece of work. */
		if (memory_cr3())
			write_cr3(memory_cr3());
		p->fn(p->arg);
		if (!traps_canaries(smp_processor_id())) {
			crash_note(NULL, 0, "its stack was overrun");
			processors_abandon("its stack was overrun");
		}
		__atomic_store_n(&p->state, IDLE, __ATOMIC_RELEASE);
	}
}

static bool wait_states(bool (*done)(u32 state), u32 ms);
static bool arrived(u32 state)
{
	return state != AWAY;
}

static void call_missing(void)
{
	for (unsigned cpu = 1; cpu < count; cpu++) {
		if (processors[cpu].state == AWAY)
			give_up(cpu, "it never arrived");
	}
}

/* The whole of the tests and benches, on the referee. */
static void referee_loop(void *arg)
{
	if (!wait_states(arrived, patience(ARRIVE_MS)))
		call_missing();
	referee_work();
	__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
}

static void EFIAPI enter(VOID *unused)
{
	UINTN number = 0;
	unsigned cpu;

	mp->who_am_i(mp, &number);
	for (cpu = 1; cpu < count && processors[cpu].number != number; cpu++)
		;
	if (cpu >= count || processors[cpu].entered)
		return; /* not one of ours: cpus= left it out */
	processors[cpu].entered = true;
	traps_load(cpu);
	if (!context_save(&processors[cpu].way_out)) {
		__atomic_store_n(&processors[cpu].state, IDLE, __ATOMIC_RELEASE);
		if (cpu == referee)
			call_on_stack(referee_loop, NULL, referee_stack + REFEREE_STACK);
		else
			call_on_stack(loop, &processors[cpu], traps_stack_top(cpu));
	}
	/* A referee that was thrown out lets the others go as well. */
	if (cpu == referee)
		__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
	traps_unload(cpu);
	__atomic_store_n(&processors[cpu].state, LEFT, __ATOMIC_RELEASE);
}

/* Wait until every processor from 1 on is in a state that `done` accepts. */
static bool wait_states(bool (*done)(u32 state), u32 ms)
{
	u64 start = rdtsc_ordered(), limit = tsc_from_us(ms * 1000ul);

	for (unsigned cpu = 1; cpu < count; cpu++) {
		while (!done(__atomic_load_n(&processors[cpu].state, __ATOMIC_ACQUIRE))) {
			if (rdtsc_ordered() - start > limit)
				return false;
			cpu_relax();
		}
	}
	return true;
}

/* 0, or what the firmware said. An event: return at once; none: return when all have left. */
static EFI_STATUS start_all(EFI_EVENT event, UINTN timeout_us)
{
	EFI_STATUS status;

	fw_tables_begin();
	status = mp->startup_all(mp, enter, FALSE, event, timeout_us, NULL, NULL);
	fw_tables_end();
	return status;
}

void processors_enter(void)
{
	EFI_STATUS status;

	if (count == 1)
		return;
	if (FW(fw_bs->CreateEvent(0, TPL_CALLBACK, NULL, NULL, &finished)) != EFI_SUCCESS)
		finished = NULL;
	status = finished ? FW(start_all(finished, 0)) : EFI_UNSUPPORTED;
	started = status == EFI_SUCCESS;
	if (started) {
		if (!wait_states(arrived, patience(ARRIVE_MS)))
			call_missing();
		return;
	}
	if (finished)
		FW(fw_bs->CloseEvent(finished));
	finished = NULL;
	if (status == EFI_UNSUPPORTED) {
		referee_wanted = true;
		event_warn("MP Services refuses to return while others work: processor 1 runs the "
			   "tests as referee, and the boot processor takes no part%s",
			   count > 2 ? "" : "; nobody is left to contend with it");
		return;
	}
	event_warn("MP Services would not start the other processors (status 0x%llx): this "
		   "run has one processor",
		   (unsigned long long)status);
	count = 1;
}

bool processors_referee(void (*fn)(void))
{
	UINTN limit = (run_budget_s() + 120) * 1000000ul;
	EFI_STATUS status;

	if (!referee_wanted)
		return false;
	referee_stack = platform_alloc(REFEREE_STACK);
	platform_memory_bytes();
	if (!referee_stack || !memory_pool(POOL_BYTES)) {
		event_warn("no memory for the referee: this run has one processor");
		count = 1;
		return false;
	}
	referee_work = fn;
	start_life_timer();
	referee = 1;
	status = start_all(NULL, limit);
	referee = 0;
	end_life_timer();
	started = true;
	crash_tell();
	if (processors[1].unusable || *processors[1].why)
		give_up(1, processors[1].why);
	if (status == EFI_SUCCESS)
		return true;
	for (unsigned cpu = 1; cpu < count; cpu++) {
		if (!processors[cpu].entered)
			give_up(cpu, "MP Services never started it");
	}
	run_worsen(RESULT_ERROR, "MP Services ended the referee's run with status 0x%llx",
		   (unsigned long long)status);
	return true;
}

/* -------------------------------------------------------------------- work */

int platform_post(unsigned cpu, void (*fn)(void *), void *arg)
{
	struct processor *p = &processors[cpu];

	if (!platform_cpu_usable(cpu) || cpu == platform_control_cpu())
		return -ENODEV;
	processors_alive();
	if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != IDLE)
		return -EBUSY;
	p->fn = fn;
	p->arg = arg;
	__atomic_store_n(&p->state, POSTED, __ATOMIC_RELEASE);
	return 0;
}

static void send_nmi(u32 apic_id)
{
	u64 base = rdmsr(MSR_IA32_APICBASE);
	volatile u32 *icr, *icr2;

	if (base & APICBASE_X2APIC) {
		wrmsr(MSR_X2APIC_ICR, (u64)apic_id << 32 | APIC_DM_NMI | APIC_LEVEL_ASSERT);
		return;
	}
	icr = (volatile u32 *)((base & ~0xffful) + APIC_ICR);
	icr2 = (volatile u32 *)((base & ~0xffful) + APIC_ICR2);
	for (unsigned i = 0; i < 100000 && (*icr & APIC_BUSY); i++)
		cpu_relax();
	*icr2 = apic_id << 24;
	*icr = APIC_DM_NMI | APIC_LEVEL_ASSERT;
}

static bool spin_until(const u32 *word, u32 value, u32 ms)
{
	u64 start = rdtsc_ordered(), limit = tsc_from_us(ms * 1000ul);

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
		if (rdtsc_ordered() - start > limit)
			return false;
		cpu_relax();
	}
	return true;
}

static bool posted(const struct processor *p)
{
	return __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == POSTED;
}

/* True when the processor left its work within `ms`. */
static bool work_ends(const struct processor *p, u32 ms)
{
	u64 start = rdtsc_ordered(), limit = tsc_from_us(ms * 1000ul);

	while (posted(p)) {
		if (rdtsc_ordered() - start > limit)
			return false;
		processors_alive();
		cpu_relax();
	}
	return true;
}

int platform_wait(unsigned cpu, u32 ms)
{
	struct processor *p = &processors[cpu];

	if (!work_ends(p, patience(ms))) {
		__atomic_store_n(&p->pull, 1, __ATOMIC_RELEASE);
		send_nmi(p->apic_id);
		give_up(cpu, work_ends(p, patience(PULL_OUT_MS))
				     ? "it hung and was pulled out by NMI"
				     : "it hung and did not even answer an NMI");
		return -ETIMEDOUT;
	}
	if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == IDLE)
		return 0;
	if (!p->unusable)
		give_up(cpu, *p->why ? p->why : "it ended in an exception");
	return -ETIMEDOUT;
}

/* In our loop, with our NMI handler: nothing may be sent to one that the firmware has. */
static bool held(unsigned cpu)
{
	u32 state = __atomic_load_n(&processors[cpu].state, __ATOMIC_ACQUIRE);

	return platform_cpu_usable(cpu) && cpu != referee && (state == IDLE || state == POSTED);
}

int platform_sync_cores(void)
{
	static u32 generation;
	int err = 0;

	generation++;
	sync_core();
	for (unsigned cpu = 1; cpu < count; cpu++) {
		if (!held(cpu))
			continue;
		__atomic_store_n(&processors[cpu].sync_asked, generation, __ATOMIC_RELEASE);
		send_nmi(processors[cpu].apic_id);
	}
	for (unsigned cpu = 1; cpu < count; cpu++) {
		processors_alive();
		if (held(cpu) &&
		    !spin_until(&processors[cpu].sync_done, generation, patience(SYNC_MS))) {
			event_warn("processor %u did not answer the NMI that serialises it", cpu);
			err = -ETIMEDOUT;
		}
	}
	return err;
}

bool processors_nmi(struct pt_regs *regs)
{
	struct processor *p = &processors[smp_processor_id()];

	if (smp_processor_id() == referee && __atomic_load_n(&life_pulled, __ATOMIC_ACQUIRE) == 1) {
		__atomic_store_n(&life_pulled, 2, __ATOMIC_RELEASE);
		platform_crash(regs, X86_TRAP_NMI, "the control processor hung and was pulled out");
	}
	if (__atomic_load_n(&p->pull, __ATOMIC_ACQUIRE)) {
		crash_note(regs, X86_TRAP_NMI, "it hung and was pulled out by NMI");
		processors_abandon("it hung and was pulled out by NMI");
	}
	/* One that came late, after a later one was answered, is still ours. */
	if (!__atomic_load_n(&p->sync_asked, __ATOMIC_ACQUIRE))
		return false;
	answer_sync(p);
	return true;
}

void processors_abandon(const char *why)
{
	struct processor *p = &processors[smp_processor_id()];

	if (!*p->why)
		mc_snprintf(p->why, sizeof(p->why), "%s", why);
	__atomic_store_n(&p->state, PULLED, __ATOMIC_RELEASE);
	context_jump(&p->way_out);
}

/* -------------------------------------------------------------------- the watch */

void processors_alive(void)
{
	__atomic_store_n(&life, raw_tsc(), __ATOMIC_RELEASE);
}

void processors_watch(bool on)
{
	processors_alive();
	life_pulled = 0;
	__atomic_store_n(&watched, on, __ATOMIC_RELEASE);
	if (on && count == 1)
		start_life_timer();
	if (!on && fw_callable())
		end_life_timer();
}

/* -------------------------------------------------------------------- leaving */

static bool gone(u32 state)
{
	return state == LEFT || state == AWAY;
}

void processors_leave(void)
{
	u64 start, limit = tsc_from_us(patience(LEAVE_MS) * 1000ul);

	if (count == 1 || !started)
		return;
	for (unsigned cpu = 1; cpu < count; cpu++) {
		if (!processors[cpu].unusable && !traps_canaries(cpu))
			run_worsen(RESULT_ERROR, "the stack of processor %u was overrun", cpu);
	}
	__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
	wait_states(gone, patience(LEAVE_MS));
	/* The firmware looks every 100 ms, from its timer interrupt. */
	if (!finished)
		return;
	start = rdtsc_ordered();
	while (FW(fw_bs->CheckEvent(finished)) != EFI_SUCCESS) {
		/* Better an event too many than one that the firmware signals when it is gone. */
		if (rdtsc_ordered() - start > limit)
			return;
		cpu_relax();
	}
	FW(fw_bs->CloseEvent(finished));
}

/* One that never arrived may still do so, in memory that is somebody else's by then; where MP
 * Services returned from a blocking call it has no such plan any more. */
bool processors_all_back(void)
{
	for (unsigned cpu = 1; started && cpu < count; cpu++) {
		if (processors[cpu].state != LEFT && (processors[cpu].entered || !referee_wanted))
			return false;
	}
	return true;
}

unsigned long platform_irq_save(void)
{
	u64 flags = read_flags();

	irq_off();
	return flags;
}

void platform_irq_restore(unsigned long flags)
{
	if (flags & X86_EFLAGS_IF)
		irq_on();
}
