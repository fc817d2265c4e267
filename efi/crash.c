/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The worst: an exception that nothing expected, on any processor. One line of JSON and a few for
 * people go to the UART at once, without the firmware and without the event room's buffers; the
 * boot processor then jumps to the end of the run if that is safe, another processor goes back to
 * its firmware, and the run ends as an error.
 */
#include "firmware.h"
#include "cpu.h"
#include "../src/cpu/features.h"
#include "../src/cpu/percpu.h"
#include "../src/mce/mce.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/run/run.h"
#include "../src/trap/trap.h"

struct jump_context crash_return;
bool crash_return_set, crashed;

extern u8 _text[], _etext[], ImageBase[];

/* Several processors may crash at the same time; their reports take turns, a bounded while. */
static u32 speaking;
static char text[2048];

static void say(const char *fmt, ...) __printf(1, 2);
static void say(const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = mc_vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	platform_stream(text, min_of((size_t)n, sizeof(text) - 1));
}

/* "mcspin.debug+0x1234": an address in the file with symbols. */
static void place(u64 ip, char *buf, size_t len)
{
	if (ip >= (u64)_text && ip < (u64)_etext)
		mc_snprintf(buf, len, "mcspin.debug+0x%llx", (unsigned long long)(ip - (u64)ImageBase));
	else
		mc_snprintf(buf, len, "outside mcspin");
}

static void say_banks(void)
{
	u64 cap = 0, mcg = 0;
	unsigned banks;

	if (platform_rdmsr(MSR_IA32_MCG_CAP, &cap))
		return;
	platform_rdmsr(MSR_IA32_MCG_STATUS, &mcg);
	banks = min_of(MCG_BANKCNT(cap), 32u);
	say("# mcg_status 0x%llx, graded: %s\n", (unsigned long long)mcg,
	    mce_last.msg ? mce_last.msg : "nothing");
	for (unsigned b = 0; b < banks; b++) {
		struct mce m = {.bank = (u8)b};
		char words[220];

		platform_rdmsr(MSR_IA32_MCx_STATUS(b), &m.status);
		if (!(m.status & MCI_STATUS_VAL))
			continue;
		platform_rdmsr(MSR_IA32_MCx_ADDR(b), &m.addr);
		platform_rdmsr(MSR_IA32_MCx_MISC(b), &m.misc);
		mce_describe(&m, boot_cpu_data.vendor, words, sizeof(words));
		say("# mcspin {\"event\": \"crash_bank\", \"bank\": %u, \"status\": \"0x%llx\", "
		    "\"text\": \"%s\"}\n",
		    b, (unsigned long long)m.status, words);
	}
}

static void report(const struct pt_regs *r, unsigned vector, const char *why)
{
	static const struct pt_regs none;
	char where[48];

	if (!r)
		r = &none;
	place(r->ip, where, sizeof(where));
	say("# mcspin {\"event\": \"crash\", \"cpu\": %u, \"apic_id\": %u, \"vector\": \"%s\", "
	    "\"error_code\": \"0x%llx\", \"why\": \"%s\", \"doing\": \"%s\", \"ip\": \"0x%llx\", "
	    "\"place\": \"%s\", \"cr2\": \"0x%llx\", \"in_firmware\": %s}\n",
	    smp_processor_id(), this_cpu()->apic_id, r == &none ? "none" : trap_name(vector),
	    (unsigned long long)r->error_code, why, run_doing(), (unsigned long long)r->ip, where,
	    (unsigned long long)read_cr2(), fw_inside ? "true" : "false");
	say("# crash: rax %016llx rbx %016llx rcx %016llx rdx %016llx\n# crash: rsi %016llx rdi "
	    "%016llx rbp %016llx rsp %016llx\n",
	    (unsigned long long)r->ax, (unsigned long long)r->bx, (unsigned long long)r->cx,
	    (unsigned long long)r->dx, (unsigned long long)r->si, (unsigned long long)r->di,
	    (unsigned long long)r->bp, (unsigned long long)r->sp);
	say("# crash: r8  %016llx r9  %016llx r10 %016llx r11 %016llx\n# crash: r12 %016llx r13 "
	    "%016llx r14 %016llx r15 %016llx flags %llx\n",
	    (unsigned long long)r->r8, (unsigned long long)r->r9, (unsigned long long)r->r10,
	    (unsigned long long)r->r11, (unsigned long long)r->r12, (unsigned long long)r->r13,
	    (unsigned long long)r->r14, (unsigned long long)r->r15, (unsigned long long)r->flags);
	if (vector == X86_TRAP_MC)
		say_banks();
}

static void __noreturn reset(void)
{
	/* Port CF9 first: no firmware in it. Then the keyboard controller. */
	outb(0xcf9, 0x06);
	outb(0x64, 0xfe);
	for (;;)
		__asm__ volatile("cli; hlt");
}

void platform_crash(const struct pt_regs *regs, unsigned vector, const char *why)
{
	irq_off();
	for (unsigned i = 0; i < 50000000 && __atomic_exchange_n(&speaking, 1, __ATOMIC_ACQUIRE); i++)
		__asm__ volatile("pause");
	crashed = true;
	report(regs, vector, why);
	__atomic_store_n(&speaking, 0, __ATOMIC_RELEASE);
	if (smp_processor_id() != 0) {
		char reason[100];

		mc_snprintf(reason, sizeof(reason), "%s (%s)", why, trap_name(vector));
		processors_abandon(reason);
	}
	/* In the middle of a firmware service nothing of the firmware may be called again. */
	if (fw_inside || !crash_return_set)
		reset();
	context_jump(&crash_return);
}
