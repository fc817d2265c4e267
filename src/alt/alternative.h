/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Alternatives: places in the text that start-up rewrites for the machine it finds, with Linux's
 * table layout and macros (arch/x86/include/asm/alternative.h). Each entry says where, with what,
 * and on which feature; the patcher (alternative.c, which itself contains no site) decides all
 * entries of one place first and writes once.
 *
 * mcspin adds a name: ALT_SITE(id) in front of an ALTERNATIVE ties the address to a row of
 * sites.h, so that the report can say what runs there and why.
 */
#ifndef MCSPIN_ALT_ALTERNATIVE_H
#define MCSPIN_ALT_ALTERNATIVE_H

#include "../types.h"
#include "../cpu/features.h"
#include "sites.h"

/* Flags live above bit 16 of the macros' feature argument, as in Linux. */
#define ALT_FLAGS_SHIFT	     16
#define ALT_FLAG_NOT	     1
#define ALT_FLAG_DIRECT_CALL 2
#define ALT_FLAG_C_CODE	     4 /* mcspin's own: the original is a C statement, filled with NOPs */
#define ALT_NOT(f)	     ((ALT_FLAG_NOT << ALT_FLAGS_SHIFT) | (f))
#define ALT_DIRECT_CALL(f)   ((ALT_FLAG_DIRECT_CALL << ALT_FLAGS_SHIFT) | (f))
#define ALT_C_CODE(f)	     ((ALT_FLAG_C_CODE << ALT_FLAGS_SHIFT) | (f))

#ifdef __ASSEMBLY__

.macro alt_entry orig:req, alt:req, ft:req, len:req, repl_len:req
	.long (\orig) - .
	.long (\alt) - .
	.4byte \ft
	.byte \len
	.byte \repl_len
.endm

/* Name the place that follows. */
.macro ALT_SITE id:req
	.pushsection .altsites, "a", @progbits
	.balign 4
	.long 771f - .
	.long \id
	.popsection
771:
.endm

#define alt_max_2(a, b) ((a) ^ (((a) ^ (b)) & -(-((a) < (b)))))

.macro ALTERNATIVE oldinstr, newinstr, ft
140:
	\oldinstr
141:
	.skip -(((144f-143f)-(141b-140b)) > 0) * ((144f-143f)-(141b-140b)), 0x90
142:
	.pushsection .altinstructions, "a", @progbits
	alt_entry 140b, 143f, \ft, 142b-140b, 144f-143f
	.popsection
	.pushsection .altinstr_replacement, "ax", @progbits
143:
	\newinstr
144:
	.popsection
.endm

.macro ALTERNATIVE_2 oldinstr, newinstr1, ft1, newinstr2, ft2
140:
	\oldinstr
141:
	.skip -((alt_max_2(144f-143f, 145f-144f)) - (141b-140b) > 0) * (alt_max_2(144f-143f, 145f-144f) - (141b-140b)), 0x90
142:
	.pushsection .altinstructions, "a", @progbits
	alt_entry 140b, 143f, \ft1, 142b-140b, 144f-143f
	alt_entry 140b, 144f, \ft2, 142b-140b, 145f-144f
	.popsection
	.pushsection .altinstr_replacement, "ax", @progbits
143:
	\newinstr1
144:
	\newinstr2
145:
	.popsection
.endm

#else /* C */

struct alt_instr {
	s32 instr_offset; /* original, relative to this field */
	s32 repl_offset;  /* replacement, relative to this field */
	u16 cpuid;	  /* enum x86_feature */
	u16 flags;	  /* ALT_FLAG_* */
	u8 instrlen;	  /* padding included, at most 254 */
	u8 replacementlen;
} __packed;
static_assert(sizeof(struct alt_instr) == 14, "Linux's layout; the assembler emits 4+4+4+1+1");

struct alt_site {
	s32 addr_offset; /* relative to this field */
	u32 id;		 /* enum mcspin_site */
};

extern struct alt_instr __alt_instructions[], __alt_instructions_end[];
extern const struct alt_site __start_altsites[], __stop_altsites[];

#define ALT_SITE(id)                                                                               \
	".pushsection .altsites, \"a\", @progbits\n\t.balign 4\n\t"                                \
	".long 771f - .\n\t.long " __stringify(id) "\n\t.popsection\n771:\n\t"

/*
 * ALTERNATIVE(old, new, ft) as an asm template; ft must be a literal number there, so C users give
 * features as operands: asm(ALTERNATIVE("nop", "lfence", "%c[ft]") :: [ft] "i"(X86_FEATURE_...)).
 */
#define ALT_ENTRY(n_orig, n_alt, n_altend, ft)                                                     \
	".long " n_orig " - .\n\t.long " n_alt " - .\n\t.4byte " ft "\n\t"                         \
	".byte 773f-772b\n\t"                                                                      \
	".byte " n_altend "-" n_alt "\n\t"

/* Decide, open the text, write, read back, close, emit the site events. 0, or -EPERM where the text
 * cannot be written (said in an event; the run goes on unpatched). */
int alt_patch_all(void);

#endif /* __ASSEMBLY__ */
#endif
