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

/* A length above 254 moves .org backwards, which the assembler refuses. */
.macro alt_entry orig:req, alt:req, ft:req, len:req, repl_len:req
	.pushsection .altinstructions, "a", @progbits
	.long (\orig) - .
	.long (\alt) - .
	.4byte \ft
	.byte \len
	.byte \repl_len
	.popsection
	.pushsection .discard.altlen, "", @progbits
	.org . + 254 - (\len)
	.popsection
.endm

/* Name the place that follows. */
.macro ALT_SITE id:req
	.pushsection .altsites, "a", @progbits
	.balign 4
	.long 770f - .
	.long \id
	.popsection
770:
.endm

.macro ALTERNATIVE oldinstr, newinstr, ft
140:
	\oldinstr
141:
	.skip -(((144f-143f)-(141b-140b)) > 0) * ((144f-143f)-(141b-140b)), 0x90
142:
	.pushsection .altinstr_replacement, "ax", @progbits
143:
	\newinstr
144:
	.popsection
	alt_entry 140b, 143b, \ft, 142b-140b, 144b-143b
.endm

/* max(a, b) without a branch; gas says -1 for true. */
#define alt_max_2(a, b) ((a) ^ (((a) ^ (b)) & -(-((a) < (b)))))
#define alt_max_3(a, b, c) alt_max_2(alt_max_2(a, b), c)

.macro ALTERNATIVE_2 oldinstr, newinstr1, ft1, newinstr2, ft2
140:
	\oldinstr
141:
	.skip -((alt_max_2(144f-143f, 145f-144f) - (141b-140b)) > 0) * (alt_max_2(144f-143f, 145f-144f) - (141b-140b)), 0x90
142:
	.pushsection .altinstr_replacement, "ax", @progbits
143:
	\newinstr1
144:
	\newinstr2
145:
	.popsection
	alt_entry 140b, 143b, \ft1, 142b-140b, 144b-143b
	alt_entry 140b, 144b, \ft2, 142b-140b, 145b-144b
.endm

.macro ALTERNATIVE_3 oldinstr, newinstr1, ft1, newinstr2, ft2, newinstr3, ft3
140:
	\oldinstr
141:
	.skip -((alt_max_3(144f-143f, 145f-144f, 146f-145f) - (141b-140b)) > 0) * (alt_max_3(144f-143f, 145f-144f, 146f-145f) - (141b-140b)), 0x90
142:
	.pushsection .altinstr_replacement, "ax", @progbits
143:
	\newinstr1
144:
	\newinstr2
145:
	\newinstr3
146:
	.popsection
	alt_entry 140b, 143b, \ft1, 142b-140b, 144b-143b
	alt_entry 140b, 144b, \ft2, 142b-140b, 145b-144b
	alt_entry 140b, 145b, \ft3, 142b-140b, 146b-145b
.endm

/* If the feature is there newinstr1, else newinstr2; the original never runs after patching. */
#define ALTERNATIVE_TERNARY(oldinstr, ft, newinstr1, newinstr2)                                    \
	ALTERNATIVE_2 oldinstr, newinstr2, X86_FEATURE_ALWAYS, newinstr1, ft

#else /* C */

struct alt_instr {
	s32 instr_offset; /* original, relative to this field */
	s32 repl_offset;  /* replacement, relative to this field */
	u16 cpuid;	  /* X86_FEATURE_* */
	u16 flags;	  /* ALT_FLAG_* */
	u8 instrlen;	  /* padding included, at most 254 */
	u8 replacementlen;
} __packed;
static_assert(sizeof(struct alt_instr) == 14, "Linux's layout; the assembler emits 4+4+4+1+1");

#define ALT_MAX_LEN 254

struct alt_site {
	s32 addr_offset; /* relative to this field */
	u32 id;		 /* SITE_* */
};

/* Bounds come from linker/tables.lds. */
extern const struct alt_instr __alt_instructions[], __alt_instructions_end[];
extern const struct alt_site __start_altsites[], __stop_altsites[];
extern const s32 __start___smp_locks[], __stop___smp_locks[];

/* Each macro is an asm template: asm volatile(ALT_SITE(SITE_STAC) ALTERNATIVE("", "stac",
 * X86_FEATURE_SMAP)). The feature is a plain number, with ALT_NOT() and the like where needed. */
#define ALT_SITE(id)                                                                               \
	".pushsection .altsites, \"a\", @progbits\n\t.balign 4\n\t"                                \
	".long 770f - .\n\t.long " __stringify(id) "\n\t.popsection\n770:\n\t"

#define ALT_ENTRY(ft)                                                                              \
	".pushsection .altinstructions, \"a\", @progbits\n\t"                                      \
	".long 771b - .\n\t.long 774b - .\n\t.4byte " __stringify(ft) "\n\t"                       \
	".byte 773b-771b\n\t.byte 775b-774b\n\t.popsection\n\t"                                    \
	".pushsection .discard.altlen, \"\", @progbits\n\t.org . + 254 - (773b-771b)\n\t.popsection\n\t"

/* Nesting works because every label is looked up backwards, nearest first, and an outer site
 * begins where its inner one does. */
#define ALTERNATIVE(oldinstr, newinstr, ft)                                                        \
	"771:\n\t" oldinstr "\n772:\n\t"                                                           \
	".pushsection .altinstr_replacement, \"ax\", @progbits\n774:\n\t" newinstr                 \
	"\n775:\n\t.popsection\n\t"                                                                \
	".skip -(((775b-774b)-(772b-771b)) > 0) * ((775b-774b)-(772b-771b)), 0x90\n773:\n\t"       \
	ALT_ENTRY(ft)

#define ALTERNATIVE_2(oldinstr, newinstr1, ft1, newinstr2, ft2)                                    \
	ALTERNATIVE(ALTERNATIVE(oldinstr, newinstr1, ft1), newinstr2, ft2)
#define ALTERNATIVE_3(oldinstr, newinstr1, ft1, newinstr2, ft2, newinstr3, ft3)                    \
	ALTERNATIVE(ALTERNATIVE_2(oldinstr, newinstr1, ft1, newinstr2, ft2), newinstr3, ft3)
#define ALTERNATIVE_TERNARY(oldinstr, ft, newinstr1, newinstr2)                                    \
	ALTERNATIVE_2(oldinstr, newinstr2, X86_FEATURE_ALWAYS, newinstr1, ft)

/* On one processor a lock prefix is a price without a use; Linux's name and section. */
#define LOCK_PREFIX                                                                                \
	".pushsection .smp_locks, \"a\", @progbits\n\t.balign 4\n\t.long 671f - .\n\t"             \
	".popsection\n671:\n\tlock; "

/*
 * A C statement as the original: filled with NOPs when the entry applies. As posted in 2022 nothing
 * tied the statement to the labels, and the variable's start value was a dead store; here `out`
 * (at most 64 bits) goes into and out of both labels in one register, rdi, the first argument's, so
 * the compiler must keep its value before the site and compute the new one inside. The statement
 * must not branch away; a test decodes what lies there.
 */
#define ALTERNATIVE_C_CODE(id, ft, out, statement)                                                 \
	do {                                                                                       \
		__asm__ volatile(ALT_SITE(id) "771:\n\t" : "+D"(out)::"memory");                   \
		statement;                                                                         \
		__asm__ volatile("773:\n\t"                                                        \
				 ".pushsection .altinstr_replacement, \"ax\", @progbits\n774:\n"   \
				 "775:\n\t.popsection\n\t" ALT_ENTRY(ft)                           \
				 : "+D"(out)::"memory");                                           \
	} while (0)

/* -------------------------------------------------------------------- deciding, apart from writing */

struct alt_plan {
	u8 *addr;
	u8 len;
	s16 chosen; /* entry of its group, from 0; -1: the original stays */
	s16 id;	    /* SITE_*, or -1: without a name */
	bool refused;
	char because[160]; /* the features that decided, or why it was refused */
	u8 before[ALT_MAX_LEN], after[ALT_MAX_LEN];
	bool mismatch; /* `found` was in the text where `before`, or after writing `after`, should be */
	u8 found[ALT_MAX_LEN];
};

/*
 * Decide every entry of the place `addr` in [table, end) for machine `m` and compute the bytes that
 * shall stand there: last entry that applies, relocated, padded with long NOPs. Writes nothing.
 * 0, or -EINVAL / -ERANGE with `refused` set and the reason in `because`.
 */
int alt_decide(struct alt_plan *plan, const struct alt_instr *table, const struct alt_instr *end,
	       u8 *addr, const struct machine *m);
/* The same for one LOCK prefix of .smp_locks: DS on one processor, LOCK otherwise. */
int alt_decide_lock(struct alt_plan *plan, u8 *addr, const struct machine *m);
/* Move `len` bytes of code from `from` to `to`: displacements that leave the code are corrected,
 * far jumps shrunk where the near one reaches. -ERANGE: one no longer reaches. */
int alt_relocate(u8 *buf, size_t len, const u8 *from, const u8 *to);
/* Replace each run of NOPs by what modern Linux puts there. */
void alt_optimize_nops(u8 *buf, size_t len);
/* `len` bytes of canonical filler: one NOP up to 11, a jump over INT3s beyond. */
void alt_fill_nops(u8 *buf, size_t len);
/* The word of sites.h for choice `chosen` of a site, into `buf`. */
void alt_choice_name(int id, int chosen, char *buf, size_t len);
const char *alt_site_name(int id);
/* The marker of the posting of 2022: "the replacement is one byte 0x90". A decision to be judged,
 * never used for a real site. */
bool alt_marker_of_posting(const struct alt_instr *entry);
/* The posting's whole decision about one entry: `after` gets instrlen bytes, nothing is written.
 * True: the entry was taken for a C statement, whatever it is. */
bool alt_decide_as_posted(u8 *after, const struct alt_instr *entry, const struct machine *m);

/*
 * Decide, open the text, write, read back, close, emit the site events. 0, or -EPERM where the text
 * cannot be written (said in an event; the run goes on unpatched), or -EIO when bytes read back
 * were not those written or something outside the sites changed. Boot processor, before the others
 * start, features frozen.
 */
int alt_patch_all(void);
/* Write one decided plan into open text. -EIO: old bytes differ (nothing written), or the bytes
 * read back are not those written. */
int alt_write(struct alt_plan *plan);
/* The plans of the last alt_patch_all(), for the tests and benches. */
const struct alt_plan *alt_plans(unsigned *count);
/* A hash of the text outside all sites of alt_plans(). Static keys are inside it: compare only
 * across times in which none is flipped. */
u64 alt_hash_outside(void);
/* BUG_func and nop_func: targets of a direct call that means "must not happen" and "nothing". */
void BUG_func(void);
void nop_func(void);

#endif /* __ASSEMBLY__ */
#endif
