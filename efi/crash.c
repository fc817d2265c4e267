/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The worst: an exception that nothing expected, on any processor. One line for people goes to the
 * UART at once, without the firmware and without the event room's buffers, and everything else is
 * kept. The control processor then jumps to the end of the run if that is safe, another processor
 * goes back to its firmware, and the event "crash" tells what was kept, from a place where telling
 * is safe. The run ends as an error.
 */
#include "firmware.h"
#include "cpu.h"
#include "../src/cpu/features.h"
#include "../src/cpu/percpu.h"
#include "../src/mce/mce.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/run/options.h"
#include "../src/run/run.h"
#include "../src/trap/trap.h"

struct jump_context crash_return;
bool crash_return_set, crashed;

extern u8 _text[], _etext[], ImageBase[];

#define RECORDS 8
#define WORDS	6

/* What a crash leaves behind, written by the processor that crashed. */
static struct record {
	struct pt_regs regs;
	bool have_regs, in_firmware, told;
	u32 cpu, apic_id, vector;
	u64 cr2, mcg_status;
	u64 returns[WORDS]; /* words of its stack that lie in the text: who may have called */
	unsigned returns_found;
	char why[120], doing[96];
	char banks[8][220];
	const char *graded; /* the grader's sentence of a machine check */
} records[RECORDS];
static u32 taken; /* records */

/* Several processors may crash at the same time; their lines take turns, a bounded while. */
static u32 speaking;
static char text[512];

static void say(const char *fmt, ...) __printf(1, 2);
static void say(const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = mc_vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	console_uart(text, min_of((size_t)n, sizeof(text) - 1));
}

static bool in_text(u64 ip)
{
	return ip >= (u64)_text && ip < (u64)_etext;
}

/* "mcspin.debug+0x1234": what addr2line -e mcspin.debug takes. */
static void place(u64 ip, char *buf, size_t len)
{
	if (in_text(ip))
		mc_snprintf(buf, len, "mcspin.debug+0x%llx", (unsigned long long)(ip - (u64)ImageBase));
	else
		mc_snprintf(buf, len, "outside mcspin");
}

/* -------------------------------------------------------------------- keeping */

static void keep_banks(struct record *c)
{
	u64 cap = 0;
	unsigned kept = 0;

	if (platform_rdmsr(MSR_IA32_MCG_CAP, &cap))
		return;
	platform_rdmsr(MSR_IA32_MCG_STATUS, &c->mcg_status);
	for (unsigned b = 0; b < min_of(MCG_BANKCNT(cap), 32u) && kept < ARRAY_SIZE(c->banks); b++) {
		struct mce m = {.bank = (u8)b};

		platform_rdmsr(MSR_IA32_MCx_STATUS(b), &m.status);
		if (!(m.status & MCI_STATUS_VAL))
			continue;
		platform_rdmsr(MSR_IA32_MCx_ADDR(b), &m.addr);
		platform_rdmsr(MSR_IA32_MCx_MISC(b), &m.misc);
		mce_describe(&m, boot_cpu_data.vendor, c->banks[kept++], sizeof(c->banks[0]));
	}
}

static void keep_returns(struct record *c)
{
	u64 sp = c->regs.sp & ~7ul;

	for (unsigned i = 0; i < 128 && c->returns_found < WORDS; i++, sp += 8) {
		if (!memory_pte((const void *)sp))
			return;
		if (in_text(*(const u64 *)sp))
			c->returns[c->returns_found++] = *(const u64 *)sp - (u64)ImageBase;
	}
}

static struct record *keep(const struct pt_regs *regs, unsigned vector, const char *why)
{
	u32 n = __atomic_fetch_add(&taken, 1, __ATOMIC_ACQ_REL);
	struct record *c = &records[min_of(n, RECORDS - 1u)];

	c->cpu = smp_processor_id();
	c->apic_id = this_cpu()->apic_id;
	c->vector = vector;
	c->cr2 = read_cr2();
	c->in_firmware = fw_inside && c->cpu == 0;
	mc_snprintf(c->why, sizeof(c->why), "%s", why);
	mc_snprintf(c->doing, sizeof(c->doing), "%s", run_doing());
	if (regs) {
		c->regs = *regs;
		c->have_regs = true;
		keep_returns(c);
	}
	keep_banks(c);
	if (vector == X86_TRAP_MC)
		c->graded = mce_last.msg;
	return c;
}

void crash_note(const struct pt_regs *regs, unsigned vector, const char *why)
{
	keep(regs, vector, why);
}

/* -------------------------------------------------------------------- telling */

static void tell_registers(const struct pt_regs *r)
{
	const struct {
		const char *name;
		u64 value;
	} all[] = {
		{"rax", r->ax},	 {"rbx", r->bx},  {"rcx", r->cx},  {"rdx", r->dx},  {"rsi", r->si},
		{"rdi", r->di},	 {"rbp", r->bp},  {"rsp", r->sp},  {"r8", r->r8},   {"r9", r->r9},
		{"r10", r->r10}, {"r11", r->r11}, {"r12", r->r12}, {"r13", r->r13}, {"r14", r->r14},
		{"r15", r->r15}, {"rip", r->ip},  {"rflags", r->flags},
	};

	event_object("registers");
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		event_hex64(all[i].name, all[i].value);
	event_close();
}

/* The last lines of the stream before the crash, shortened. */
static void tell_last_events(void)
{
	size_t len, end;
	const char *log = event_log(&len);
	char line[140];

	event_array("last");
	end = len;
	for (unsigned n = 0; n < 4 && end; n++) {
		size_t start = end - 1, i = 0;

		while (start && log[start - 1] != '\n')
			start--;
		for (; start + i < end - 1 && i < sizeof(line) - 1; i++)
			line[i] = log[start + i];
		line[i] = 0;
		event_str(NULL, line);
		end = start;
	}
	event_close();
}

static void tell_code(const struct record *c)
{
	char where[48];

	place(c->regs.ip, where, sizeof(where));
	event_str("place", where);
	event_array("stack");
	for (unsigned i = 0; i < c->returns_found; i++) {
		mc_snprintf(where, sizeof(where), "+0x%llx", (unsigned long long)c->returns[i]);
		event_str(NULL, where);
	}
	event_close();
	tell_registers(&c->regs);
}

static void tell(const struct record *c)
{
	event_begin("crash");
	event_u64("cpu", c->cpu);
	event_u64("apic_id", c->apic_id);
	event_str("why", c->why);
	event_str("doing", c->doing);
	event_str("vector", c->have_regs ? trap_name(c->vector) : NULL);
	event_hex64("error_code", c->regs.error_code);
	event_hex64("cr2", c->cr2);
	event_bool("in_firmware", c->in_firmware);
	event_hex64("mcg_status", c->mcg_status);
	event_str("graded", c->graded);
	event_array("banks");
	for (unsigned b = 0; b < ARRAY_SIZE(c->banks); b++) {
		if (*c->banks[b])
			event_str(NULL, c->banks[b]);
	}
	event_close();
	tell_last_events();
	if (c->have_regs)
		tell_code(c);
	event_end();
}

static void tell_screen(const struct record *c)
{
	char where[48], line[240];

	place(c->regs.ip, where, sizeof(where));
	mc_snprintf(line, sizeof(line), "\nprocessor %u, running %s: %s (%s%s%s)\n", c->cpu, c->doing,
		    c->why, c->have_regs ? trap_name(c->vector) : "no registers",
		    c->have_regs ? " at " : "", c->have_regs ? where : "");
	console_screen(line);
}

static void tell_all(bool screen)
{
	for (u32 i = 0; i < min_of(__atomic_load_n(&taken, __ATOMIC_ACQUIRE), (u32)RECORDS); i++) {
		if (records[i].told)
			continue;
		records[i].told = true;
		tell(&records[i]);
		if (screen)
			tell_screen(&records[i]);
	}
}

void crash_tell(void)
{
	tell_all(fw_callable());
}

/* At once, on the serial line alone: what follows may not come. */
static void say_now(const struct record *c)
{
	char where[48];

	place(c->regs.ip, where, sizeof(where));
	say("# crash: processor %u (APIC id %u), running %s: %s; %s, error code 0x%llx, rip 0x%llx "
	    "(%s), rsp 0x%llx, cr2 0x%llx%s\n",
	    c->cpu, c->apic_id, c->doing, c->why, c->have_regs ? trap_name(c->vector) : "no registers",
	    (unsigned long long)c->regs.error_code, (unsigned long long)c->regs.ip, where,
	    (unsigned long long)c->regs.sp, (unsigned long long)c->cr2,
	    c->in_firmware ? ", inside the firmware" : "");
}

/* No firmware in any of it. */
static void __noreturn reset(void)
{
	say("# the machine is reset: the firmware cannot be called any more\n");
	if (options.exit == EXIT_QEMU)
		outb(0xf4, 0x11);
	outb(0xcf9, 0x06);
	outb(0x64, 0xfe);
	for (;;)
		__asm__ volatile("cli; hlt");
}

static struct record *keep_and_say(const struct pt_regs *regs, unsigned vector, const char *why)
{
	struct record *c;

	irq_off();
	for (unsigned i = 0; i < 50000000 && __atomic_exchange_n(&speaking, 1, __ATOMIC_ACQUIRE); i++)
		__asm__ volatile("pause");
	crashed = true;
	c = keep(regs, vector, why);
	say_now(c);
	__atomic_store_n(&speaking, 0, __ATOMIC_RELEASE);
	return c;
}

void crash_reset(const char *why)
{
	keep_and_say(NULL, 0, why);
	tell_all(false);
	reset();
}

void platform_crash(const struct pt_regs *regs, unsigned vector, const char *why)
{
	struct record *c = keep_and_say(regs, vector, why);

	if (smp_processor_id() != platform_control_cpu())
		processors_abandon(c->why);
	/* In the middle of a firmware service nothing of the firmware may be called again. The event's
	 * line still reaches the serial port; the files keep what they had. */
	if (c->in_firmware || !crash_return_set) {
		tell_all(false);
		reset();
	}
	crash_return_set = false;
	context_jump(&crash_return);
}
