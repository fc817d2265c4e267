/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The exception table, with Linux's meaning (arch/x86/include/asm/asm.h, mm/extable.c since
 * v5.16): each entry names an instruction that may fault, where to continue, and a type that says
 * which exceptions it covers. Offsets are relative to the field that holds them, so the image
 * needs no relocation for the table.
 */
#ifndef MCSPIN_TRAP_EXTABLE_H
#define MCSPIN_TRAP_EXTABLE_H

#define EX_TYPE_DEFAULT		 1 /* #PF, #GP: continue at the fix-up */
#define EX_TYPE_FAULT		 2 /* as DEFAULT, and ax = the vector */
#define EX_TYPE_DEFAULT_MCE_SAFE 14 /* as DEFAULT, and #MC as well */
#define EX_TYPE_FAULT_MCE_SAFE	 15 /* as FAULT, and #MC as well */

#ifdef __ASSEMBLY__

.macro _ASM_EXTABLE_TYPE from:req, to:req, type:req
	.pushsection __ex_table, "a", @progbits
	.balign 4
	.long (\from) - .
	.long (\to) - .
	.long \type
	.popsection
.endm

.macro _ASM_EXTABLE from:req, to:req
	_ASM_EXTABLE_TYPE \from, \to, EX_TYPE_DEFAULT
.endm

#else

#include "../types.h"

struct pt_regs;

struct exception_table_entry {
	s32 insn, fixup, type;
};
static_assert(sizeof(struct exception_table_entry) == 12, "the assembler macro emits three longs");

#define _ASM_EXTABLE_TYPE(from, to, type)                                                          \
	".pushsection __ex_table, \"a\", @progbits\n\t.balign 4\n\t"                               \
	".long (" #from ") - .\n\t.long (" #to ") - .\n\t.long " __stringify(type) "\n\t"          \
	".popsection\n"

/* Bounds come from linker/tables.lds. */
extern const struct exception_table_entry __start___ex_table[], __stop___ex_table[];

/* The entry whose instruction is exactly `ip`, or NULL. */
const struct exception_table_entry *search_exception_tables(u64 ip);
/* Does the entry's type cover a machine check? */
bool ex_mce_safe(const struct exception_table_entry *e);
/* Edit regs->ip (and ax) if an entry covers `vector`; records it in this_cpu(). False: none. */
bool fixup_exception(struct pt_regs *regs, unsigned vector, u64 addr);

#endif
#endif
