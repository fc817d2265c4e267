/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the patcher did to this very image: every site holds the bytes that were decided, every kind
 * of alternative computes what its choice says, and what must be refused is refused by name with
 * nothing harmed. Exhaustive forms, on machines that exist only in tables, are in tests/host.
 */
#include "alternative.h"
#include "insn.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/run.h"

/* -------------------------------------------------------------------- sites of every kind */

/* Functions that keep every register but eax, so that inline assembly may call them. */
__asm__(".pushsection .text, \"ax\", @progbits\n"
	".globl alt_test_add_one, alt_test_add_two\n"
	".hidden alt_test_add_one, alt_test_add_two\n"
	"alt_test_add_one: addl $1, %eax; ret\n"
	"alt_test_add_two: addl $2, %eax; ret\n"
	".popsection\n");
void alt_test_add_one(void);
void alt_test_add_two(void);

u32 alt_test_value = 40;
const void *alt_test_pointer = (const void *)alt_test_add_one;

#define TEST_SITE(...)                                                                             \
	({                                                                                         \
		u32 v_ = 0;                                                                        \
		__asm__ volatile(ALT_SITE(SITE_ALT_TEST) __VA_ARGS__ : "+a"(v_)::"rcx", "memory",  \
				 "cc");                                                            \
		v_;                                                                                \
	})

/* A rip-relative operand and a call that is not the first instruction: both must be moved. */
static noinline u32 relocated(void)
{
	return TEST_SITE(ALTERNATIVE("ud2",
				     "leaq alt_test_value(%%rip), %%rax\n\tmovl (%%rax), %%eax\n\t"
				     "call alt_test_add_two",
				     X86_FEATURE_ALWAYS));
}

/* A loop inside: its branch must not be moved. */
static noinline u32 looping(void)
{
	return TEST_SITE(ALTERNATIVE("ud2",
				     "movl $3, %%ecx\n1:\taddl $2, %%eax\n\tdecl %%ecx\n\tjnz 1b",
				     X86_FEATURE_ALWAYS));
}

static noinline u32 three_way(void)
{
	return TEST_SITE(ALTERNATIVE_3("movl $10, %%eax", "movl $11, %%eax", X86_FEATURE_ALWAYS,
				       "movl $12, %%eax", ALT_NOT(X86_FEATURE_ALWAYS),
				       "movl $13, %%eax", X86_FEATURE_HYPERVISOR));
}

static noinline u32 ternary(void)
{
	return TEST_SITE(ALTERNATIVE_TERNARY("ud2", X86_FEATURE_ERMS, "movl $1, %%eax",
					     "movl $2, %%eax"));
}

/* Stays, behind it 235 bytes of padding that become a jump over breakpoints. */
static noinline u32 long_padding(void)
{
	return TEST_SITE(ALTERNATIVE("movl $5, %%eax", ".fill 240, 1, 0x90",
				     ALT_NOT(X86_FEATURE_ALWAYS)));
}

static noinline u32 direct_call(void)
{
	return TEST_SITE(ALTERNATIVE("call *alt_test_pointer(%%rip)", "call BUG_func",
				     ALT_DIRECT_CALL(X86_FEATURE_ALWAYS)));
}

/* Here PAUSE is the padding's neighbour; a patcher that takes it for a NOP loses it. */
static noinline u32 pausing(void)
{
	return TEST_SITE(ALTERNATIVE("ud2", "pause\n\tmovl $7, %%eax\n\tpause", X86_FEATURE_ALWAYS));
}

/* An alternative that happens to patch something to one NOP: here it never applies. */
static noinline u32 innocent(void)
{
	return TEST_SITE(ALTERNATIVE("incl %%eax", "nop", ALT_NOT(X86_FEATURE_ALWAYS)));
}

static noinline long c_code_gone(const long *p)
{
	long x = 7;

	ALTERNATIVE_C_CODE(SITE_ALT_TEST, ALT_C_CODE(X86_FEATURE_ALWAYS), x, x = READ_ONCE(*p) - 1);
	return x;
}

static noinline long c_code_kept(const long *p)
{
	long x = 7;

	ALTERNATIVE_C_CODE(SITE_ALT_TEST,
			   ((ALT_FLAG_NOT | ALT_FLAG_C_CODE) << ALT_FLAGS_SHIFT) | X86_FEATURE_ALWAYS,
			   x, x = READ_ONCE(*p) - 1);
	return x;
}

TEST(alternatives, every_kind_runs, "each kind of alternative computes what its choice says",
     NEED_PATCHED)
{
	long thirty = 30;
	u32 v;

	v = relocated();
	check(t, v == 42, "moved operand and call gave %u, not 42", v);
	v = looping();
	check(t, v == 6, "a loop inside a replacement gave %u, not 6", v);
	v = three_way();
	check(t, v == (boot_cpu_has(X86_FEATURE_HYPERVISOR) ? 13 : 11), "the 3-way site gave %u", v);
	v = ternary();
	check(t, v == (boot_cpu_has(X86_FEATURE_ERMS) ? 1 : 2), "the ternary site gave %u", v);
	v = long_padding();
	check(t, v == 5, "a site with long padding gave %u, not 5", v);
	v = pausing();
	check(t, v == 7, "a replacement with PAUSE gave %u, not 7", v);
	v = innocent();
	check(t, v == 1, "an alternative that does not apply gave %u, not 1", v);
	check(t, c_code_gone(&thirty) == 7, "a C statement patched out still ran");
	check(t, c_code_kept(&thirty) == 29, "a C statement that stays gave %ld", c_code_kept(&thirty));
}

TEST(alternatives, direct_call_is_direct, "a call through a pointer becomes a call of its target",
     NEED_PATCHED)
{
	const void *was = READ_ONCE(alt_test_pointer);
	u32 v = direct_call();

	check(t, v == 1, "the direct call gave %u, not 1", v);
	WRITE_ONCE(alt_test_pointer, (const void *)alt_test_add_two);
	v = direct_call();
	WRITE_ONCE(alt_test_pointer, was);
	check(t, v == 1, "the pointer is still read: %u, not 1", v);
}

/* -------------------------------------------------------------------- the whole image */

TEST(alternatives, bytes_as_decided, "every site holds the bytes that were decided, read through "
				     "a second mapping", NEED_PATCHED)
{
	unsigned count;
	const struct alt_plan *plans = alt_plans(&count);
	u8 now[ALT_MAX_LEN];

	for (unsigned i = 0; i < count; i++) {
		const struct alt_plan *p = &plans[i];

		check(t, !p->refused, "site %s at %p: %s", alt_site_name(p->id), (void *)p->addr,
		      p->because);
		check(t, p->id >= 0, "the site at %p has no name", (void *)p->addr);
		if (p->refused || platform_text_read(p->addr, now, p->len))
			continue;
		check(t, !memcmp(now, p->after, p->len), "site %s at %p does not hold its bytes",
		      alt_site_name(p->id), (void *)p->addr);
	}
	check(t, count > 0, "there is no site");
	check_note(t, "%u sites", count);
}

TEST(alternatives, filler_unreachable, "no breakpoint of a site can be reached from its start", 0)
{
	unsigned count;
	const struct alt_plan *plans = alt_plans(&count);

	for (unsigned i = 0; i < count; i++) {
		const struct alt_plan *p = &plans[i];
		struct insn insn;

		/* A lock prefix is no instruction. Straight on, jumps taken: one path is enough, filler stands behind jumps only. */
		for (size_t at = 0; !p->refused && p->id != SITE_SMP_LOCK && at < p->len;) {
			if (!check(t, !insn_decode(&insn, p->after + at, p->len - at),
				   "site %s: half an instruction at +%zu", alt_site_name(p->id), at))
				break;
			check(t, p->after[at] != 0xcc, "site %s runs into filler at +%zu",
			      alt_site_name(p->id), at);
			at += insn.length;
			if (p->after[at - insn.length] == 0xeb)
				at += (s8)p->after[at - 1] > 0 ? (size_t)p->after[at - 1] : p->len;
			else if (p->after[at - insn.length] == 0xe9)
				break;
		}
	}
}

/* -------------------------------------------------------------------- refusals */

/* A table of one entry in writable memory, with made-up bytes on both sides. */
static struct {
	struct alt_instr entry;
	u8 site[ALT_MAX_LEN];
	u8 gap[64];
	u8 repl[ALT_MAX_LEN];
} made;

static void make_entry(u8 len, u8 repl_len)
{
	memset(&made, 0x90, sizeof(made));
	made.entry = (struct alt_instr){
		.instr_offset = (s32)(made.site - (u8 *)&made.entry.instr_offset),
		.repl_offset = (s32)(made.repl - (u8 *)&made.entry.repl_offset),
		.cpuid = X86_FEATURE_ALWAYS,
		.instrlen = len,
		.replacementlen = repl_len,
	};
}

static bool has_word(const char *text, const char *word)
{
	for (; *text; text++) {
		size_t n = 0;

		while (word[n] && text[n] == word[n])
			n++;
		if (!word[n])
			return true;
	}
	return false;
}

/* Refused, with `word` in the reason. */
static bool refused(struct alt_plan *p, const char *word)
{
	int err = alt_decide(p, &made.entry, &made.entry + 1, made.site, &boot_cpu_data);

	return err < 0 && p->refused && p->chosen < 0 && has_word(p->because, word);
}

TEST(alternatives, bad_entries_refused, "an oversized replacement, one whose jump no longer "
					"reaches, and half an instruction are refused by name", 0)
{
	static const u8 far_jump[] = {0xe9, 0xf0, 0xff, 0xff, 0x7f};
	static struct alt_plan p;

	make_entry(5, 6);
	check(t, refused(&p, "longer"), "a replacement longer than its site was taken");
	make_entry(5, 5);
	memcpy(made.repl, far_jump, sizeof(far_jump));
	check(t, refused(&p, "reaches"), "a jump out of range was taken");
	make_entry(5, 5);
	made.repl[4] = 0xe8;
	check(t, refused(&p, "whole"), "half an instruction was taken");
	make_entry(5, 5);
	made.site[4] = 0x0f;
	check(t, refused(&p, "whole"), "a site that ends in half an instruction was taken");
	make_entry(5, 5);
	made.entry.flags = ALT_FLAG_DIRECT_CALL;
	check(t, refused(&p, "FF 15"), "a direct call without FF 15 was taken");
	make_entry(5, 5);
	check(t, !alt_decide(&p, &made.entry, &made.entry + 1, made.site, &boot_cpu_data),
	      "a sound entry was refused: %s", p.because);
}

static const struct alt_plan *test_plan(void)
{
	unsigned count;
	const struct alt_plan *plans = alt_plans(&count);

	for (unsigned i = 0; i < count; i++) {
		if (plans[i].id == SITE_ALT_TEST && !plans[i].refused)
			return &plans[i];
	}
	return NULL;
}

TEST(alternatives, changed_site_refused, "a site whose old bytes are not the expected ones is left "
					 "alone, and both byte strings are kept", NEED_PATCHED)
{
	static struct alt_plan p;
	const struct alt_plan *real = test_plan();
	u8 now[ALT_MAX_LEN];
	int bad, good;
	u64 hash = alt_hash_outside();

	if (!real) {
		check_error(t, "the suite's own sites are missing");
		return;
	}
	memcpy(&p, real, sizeof(p));
	memcpy(p.before, real->after, p.len);
	p.before[0] ^= 1;
	memset(p.after, 0x90, p.len);
	if (platform_text_open() == TEXT_WAY_NONE) {
		check_skip(t, "the text cannot be opened any more");
		return;
	}
	bad = alt_write(&p);
	platform_text_read(real->addr, now, p.len);
	good = memcmp(now, real->after, p.len);
	platform_text_close();
	check(t, bad < 0 && p.refused && p.mismatch, "the wrong old bytes were accepted");
	check(t, !good, "a refused site was written");
	check(t, p.found[0] == real->after[0] && p.before[0] == (real->after[0] ^ 1),
	      "found %02x where %02x stands", p.found[0], real->after[0]);
	check(t, hash == alt_hash_outside(), "the text outside the sites changed");
}

/* -------------------------------------------------------------------- the posting of 2022 */

static const struct alt_instr *entry_of_plan(const struct alt_plan *p)
{
	for (const struct alt_instr *a = __alt_instructions; a < __alt_instructions_end; a++) {
		if ((u8 *)&a->instr_offset + a->instr_offset == p->addr)
			return a;
	}
	return NULL;
}

/* Entries of this image that the posting's marker takes for C statements although they are none,
 * and C statements of this image. */
static void judge_marker(unsigned *hit, unsigned *statements)
{
	for (const struct alt_instr *a = __alt_instructions; a < __alt_instructions_end; a++) {
		bool statement = a->flags & ALT_FLAG_C_CODE;

		*hit += !statement && alt_marker_of_posting(a);
		*statements += statement;
	}
}

static void tell_three_lines(unsigned hit, unsigned statements)
{
	char text[200];

	mc_snprintf(text, sizeof(text),
		    "As posted in 2022, \"the replacement is one byte 0x90\" marks a C statement: here "
		    "it also takes %u other alternative%s, and would erase %s on bare metal.",
		    hit, hit == 1 ? "" : "s", hit == 1 ? "it" : "them");
	event_finding("patching_marker", text, false, 0, 0,
		      (const char *const[]){"test:alternatives.marker_of_posting",
					    "site:alternatives_test", NULL});
	mc_snprintf(text, sizeof(text),
		    "mcspin's ALT_FLAG_C_CODE is carried by the entry itself: it takes %u of %u C "
		    "statements and nothing else, and the build decodes what lies between the labels.",
		    statements, statements);
	event_finding("patching_flag", text, false, 0, 0,
		      (const char *const[]){"test:alternatives.every_kind_runs",
					    "site:vcpu_argument", NULL});
	event_finding("patching_static_key",
		      "The reviewers' static key needs no patched statement: the branch skips argument "
		      "and call alike, and can be flipped while every processor runs through it.",
		      false, 0, 0,
		      (const char *const[]){"test:alternatives.live_flips", NULL});
}

TEST(alternatives, marker_of_posting, "the marker posted in 2022 also hits an alternative that is "
				      "no C statement; the flag does not", 0)
{
	static struct machine native;
	const struct alt_instr *a = NULL;
	unsigned count, hit = 0, statements = 0;
	const struct alt_plan *plans = alt_plans(&count);
	static struct alt_plan ours;
	u8 posted[ALT_MAX_LEN];

	memcpy(&native, &boot_cpu_data, sizeof(native));
	native.features[X86_FEATURE_VCPUPREEMPT] = false;
	for (unsigned i = 0; i < count && !a; i++) {
		const struct alt_instr *e = entry_of_plan(&plans[i]);

		if (e && plans[i].id == SITE_ALT_TEST && alt_marker_of_posting(e) &&
		    !(e->flags & ALT_FLAG_C_CODE))
			a = e;
	}
	if (!a) {
		check_error(t, "the innocent site is missing");
		return;
	}
	check(t, alt_decide_as_posted(posted, a, &native), "the marker did not hit");
	check(t, posted[0] != 0xff, "the posting's decision left the instruction there");
	alt_decide(&ours, __alt_instructions, __alt_instructions_end,
		   (u8 *)&a->instr_offset + a->instr_offset, &native);
	check(t, ours.chosen == -1 && ours.after[0] == 0xff, "mcspin's decision erased it as well");
	judge_marker(&hit, &statements);
	check(t, hit > 0 && statements > 0, "nothing to compare: %u hits, %u statements", hit,
	      statements);
	tell_three_lines(hit, statements);
	check_note(t, "the marker hits %u alternatives that are no C statement", hit);
}
