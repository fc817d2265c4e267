/* SPDX-License-Identifier: GPL-2.0-only */
#include "extable.h"
#include "ptrace.h"
#include "../cpu/percpu.h"

static u64 ex_insn_addr(const struct exception_table_entry *e)
{
	return (u64)&e->insn + e->insn;
}

static u64 ex_fixup_addr(const struct exception_table_entry *e)
{
	return (u64)&e->fixup + e->fixup;
}

bool ex_mce_safe(const struct exception_table_entry *e)
{
	return e->type == EX_TYPE_DEFAULT_MCE_SAFE || e->type == EX_TYPE_FAULT_MCE_SAFE;
}

/* The table is short and a fault is rare: no sorting, so nothing can be sorted wrongly. */
const struct exception_table_entry *search_exception_tables(u64 ip)
{
	for (const struct exception_table_entry *e = __start___ex_table; e < __stop___ex_table; e++) {
		if (ex_insn_addr(e) == ip)
			return e;
	}
	return NULL;
}

bool fixup_exception(struct pt_regs *regs, unsigned vector, u64 addr)
{
	const struct exception_table_entry *e = search_exception_tables(regs->ip);
	struct percpu *cpu = this_cpu();

	if (!e || (vector == X86_TRAP_MC && !ex_mce_safe(e)))
		return false;
	cpu->fixup_count++;
	cpu->fixup_ip = regs->ip;
	cpu->fixup_addr = addr;
	cpu->fixup_vector = vector;
	if (e->type == EX_TYPE_FAULT || e->type == EX_TYPE_FAULT_MCE_SAFE)
		regs->ax = vector;
	regs->ip = ex_fixup_addr(e);
	return true;
}
