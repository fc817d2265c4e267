/* SPDX-License-Identifier: GPL-2.0-only */
#include "trap.h"
#include "extable.h"
#include "../alt/text-patching.h"
#include "../cpu/percpu.h"
#include "../mce/mce.h"

const char *trap_name(unsigned vector)
{
	static const char *const names[32] = {
		"#DE", "#DB", "NMI", "#BP", "#OF", "#BR", "#UD", "#NM", "#DF", "#CSO", "#TS",
		"#NP", "#SS", "#GP", "#PF", "#15", "#MF", "#AC", "#MC", "#XM", "#VE", "#CP",
	};

	return vector < 32 && names[vector] ? names[vector] : "reserved";
}

void trap_set_hook(unsigned vector, trap_hook hook)
{
	this_cpu()->hooks[vector & 31] = hook;
}

bool handle_trap(struct pt_regs *regs, unsigned vector, u64 addr)
{
	trap_hook hook = vector < 32 ? this_cpu()->hooks[vector] : NULL;

	if (hook && hook(regs, addr))
		return true;
	switch (vector) {
	case X86_TRAP_BP:
		return poke_int3_handler(regs);
	case X86_TRAP_MC:
		return do_machine_check(regs);
	case X86_TRAP_PF:
	case X86_TRAP_GP:
		return fixup_exception(regs, vector, addr);
	default:
		return false;
	}
}
