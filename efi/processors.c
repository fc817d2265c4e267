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
#include "../src/cpu/percpu.h"
#include "../src/cpu/smp.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/run/options.h"
#include "../src/run/run.h"

#define ARRIVE_MS   5000 /* 1024 processors through INIT and SIPI one by one */
#define LEAVE_MS    2000
#define SYNC_MS	    1000 /* microseconds on a machine; an emulator's host may be busy */
#define PULL_OUT_MS 500

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
	if (count == MAX_CPUS || (options.cpus && count >= options.cpus))
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

unsigned processors_count_total(void)
{
	return total;
}

unsigned platform_cpus(void)
{
	return count;
}

unsigned platform_control_cpu(void)
{
	return 0;
}

bool platform_cpu_usable(unsigned cpu)
{
	return cpu < count && !processors[cpu].unusable;
}

const char *platform_cpu_why(unsigned cpu)
{
	return cpu < count && processors[cpu].unusable ? processors[cpu].why : NULL;
}

u32 platform_apic_id(unsigned cpu)
{
	return processors[cpu].apic_id;
}

static void give_up(unsigned cpu, const char *why)
{
	processors[cpu].unusable = true;
	mc_snprintf(processors[cpu].why, sizeof(processors[cpu].why), "%s", why);
	run_worsen(RESULT_ERROR, "processor %u (APIC id %u) is not used any more: %s", cpu,
		   processors[cpu].apic_id, why);
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

static void loop(void *arg)
{
	struct processor *p = arg;

	while (!__atomic_load_n(&leaving, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != POSTED) {
			cpu_relax();
			continue;
		}
		/* Rights in the arena may have changed since the last piece of work. */
		if (memory_cr3())
			write_cr3(memory_cr3());
		p->fn(p->arg);
		__atomic_store_n(&p->state, IDLE, __ATOMIC_RELEASE);
	}
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
		call_on_stack(loop, &processors[cpu], traps_stack_top(cpu));
	}
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

static bool arrived(u32 state)
{
	return state != AWAY;
}

void processors_enter(void)
{
	EFI_STATUS status;

	if (count == 1)
		return;
	fw_bs->CreateEvent(0, TPL_CALLBACK, NULL, NULL, &finished);
	fw_tables_begin();
	fw_inside = true;
	status = mp->startup_all(mp, enter, FALSE, finished, 0, NULL, NULL);
	fw_inside = false;
	fw_tables_end();
	if (status != EFI_SUCCESS) {
		event_warn("MP Services would not start the other processors (status 0x%llx): this "
			   "run has one processor",
			   (unsigned long long)status);
		count = 1;
		return;
	}
	if (wait_states(arrived, ARRIVE_MS))
		return;
	for (unsigned cpu = 1; cpu < count; cpu++) {
		if (processors[cpu].state == AWAY)
			give_up(cpu, "it never arrived");
	}
}

/* -------------------------------------------------------------------- work */

int platform_post(unsigned cpu, void (*fn)(void *), void *arg)
{
	struct processor *p = &processors[cpu];

	if (!platform_cpu_usable(cpu) || cpu == platform_control_cpu())
		return -ENODEV;
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

int platform_wait(unsigned cpu, u32 ms)
{
	struct processor *p = &processors[cpu];
	u64 start = rdtsc_ordered(), limit = tsc_from_us(ms * 1000ul);
	u32 state;

	while ((state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE)) == POSTED) {
		if (rdtsc_ordered() - start <= limit) {
			cpu_relax();
			continue;
		}
		__atomic_store_n(&p->pull, 1, __ATOMIC_RELEASE);
		send_nmi(p->apic_id);
		if (spin_until(&p->state, PULLED, PULL_OUT_MS))
			give_up(cpu, "it hung and was pulled out by NMI");
		else
			give_up(cpu, "it hung and did not even answer an NMI");
		return -ETIMEDOUT;
	}
	if (state == PULLED || state == LEFT) {
		if (!p->unusable)
			give_up(cpu, *p->why ? p->why : "it ended in an exception");
		return -ETIMEDOUT;
	}
	return 0;
}

/* In our loop, with our NMI handler: nothing may be sent to one that the firmware has. */
static bool held(unsigned cpu)
{
	u32 state = __atomic_load_n(&processors[cpu].state, __ATOMIC_ACQUIRE);

	return platform_cpu_usable(cpu) && (state == IDLE || state == POSTED);
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
		if (held(cpu) &&
		    !spin_until(&processors[cpu].sync_done, generation, SYNC_MS)) {
			event_warn("processor %u did not answer the NMI that serialises it", cpu);
			err = -ETIMEDOUT;
		}
	}
	return err;
}

bool processors_nmi(struct pt_regs *regs)
{
	struct processor *p = &processors[smp_processor_id()];

	if (__atomic_load_n(&p->pull, __ATOMIC_ACQUIRE))
		processors_abandon("it hung and was pulled out by NMI");
	if (__atomic_load_n(&p->sync_asked, __ATOMIC_ACQUIRE) == p->sync_done)
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

/* -------------------------------------------------------------------- leaving */

static bool gone(u32 state)
{
	return state == LEFT || state == AWAY;
}

void processors_leave(void)
{
	u64 start, limit = tsc_from_us(LEAVE_MS * 1000ul);

	if (count == 1)
		return;
	for (unsigned cpu = 1; cpu < count; cpu++) {
		if (!processors[cpu].unusable && !traps_canaries(cpu))
			run_worsen(RESULT_ERROR, "the stack of processor %u was overrun", cpu);
	}
	__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
	wait_states(gone, LEAVE_MS);
	/* The firmware looks every 100 ms, from its timer interrupt. */
	start = rdtsc_ordered();
	while (fw_bs->CheckEvent(finished) != EFI_SUCCESS && rdtsc_ordered() - start < limit)
		cpu_relax();
	fw_bs->CloseEvent(finished);
}

bool processors_all_back(void)
{
	for (unsigned cpu = 1; cpu < count; cpu++) {
		if (processors[cpu].entered && processors[cpu].state != LEFT)
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
