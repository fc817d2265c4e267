/* SPDX-License-Identifier: GPL-2.0-only */
#include "trace.h"
#include "../alt/insn.h"
#include "../platform.h"
#include "../trap/trap.h"

static const u8 **record;
static unsigned recorded;

static void put(const u8 *ip)
{
	if (recorded < TRACE_MAX)
		record[recorded] = ip;
	recorded++;
}

/* QEMU's TCG loses the trap after a PAUSE (F3 90), which itself goes on to the next instruction. */
static bool on_step(struct pt_regs *regs, u64 addr)
{
	const u8 *ip = (const u8 *)regs->ip;

	if (recorded && recorded < TRACE_MAX) {
		const u8 *last = record[recorded - 1];

		if (last[0] == 0xf3 && last[1] == 0x90 && ip != last + 2)
			put(last + 2);
	}
	put(ip);
	return true;
}

/* The trap comes after each instruction and shows the next one, beginning with the CALL; the last
 * ones are those that switch TF off again. */
static noinline void step_through(void (*fn)(unsigned), unsigned arg)
{
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "call *%[fn]\n\t"
			 "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "+D"(arg)
			 : [fn] "b"(fn)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
}

unsigned trace_run(void (*fn)(unsigned), unsigned arg, const u8 **ips)
{
	unsigned long flags = platform_irq_save();

	record = ips;
	recorded = 0;
	trap_set_hook(X86_TRAP_DB, on_step);
	step_through(fn, arg);
	trap_set_hook(X86_TRAP_DB, NULL);
	platform_irq_restore(flags);
	return recorded <= TRACE_MAX ? recorded : 0;
}

bool trace_round(void (*fn)(unsigned), struct trace_loop *loop)
{
	const u8 *ips[TRACE_MAX]; /* of four rounds */
	unsigned three = trace_run(fn, 3, ips);
	unsigned four = trace_run(fn, 4, ips);

	loop->count = four - three;
	if (!three || four <= three)
		return false;
	for (unsigned k = 0; k + 2 * loop->count <= four; k++) {
		if (memcmp(&ips[k], &ips[k + loop->count], loop->count * sizeof(*ips)))
			continue;
		memcpy(loop->ips, &ips[k], loop->count * sizeof(*ips));
		return true;
	}
	return false;
}

unsigned trace_bytes(const u8 *ip, u8 *bytes)
{
	struct insn insn;

	if (platform_text_read(ip, bytes, MAX_INSN) || insn_decode(&insn, bytes, MAX_INSN))
		return 0;
	return insn.length;
}
