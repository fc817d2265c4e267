/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shapes of sites, each asserted on exact bytes: what stands there, its entries, what must stand
 * there afterwards, or the word of the refusal.
 *
 * Bytes are written as text. "90*12" repeats; "@800" is the 32-bit displacement from the end of
 * its own field to lab + 0x800, "@800-4" the same with four more bytes of instruction behind it;
 * "~1010" is the 8-bit one; "@BUG" leads to BUG_func. The site is at lab + 0x1000, replacement i
 * at lab + 0x2000 + i * 0x400, so a text that means one target has different bytes in each place:
 * exactly what relocation is for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "host.h"
#include "../../src/alt/alternative.h"

#define SITE_AT 0x1000
#define REPL_AT 0x2000
#define REPL_STEP 0x400
#define LAB_BYTES 0x4000

static u8 *lab;
static struct machine machine; /* ERMS is there, FSRM is not */

#define ON	X86_FEATURE_ERMS
#define OFF	X86_FEATURE_FSRM
#define NOT(f)	ALT_NOT(f)
#define CALL(f) ALT_DIRECT_CALL(f)
#define C(f)	ALT_C_CODE(f)
#define MAX_ENTRIES 3

struct shape {
	const char *name, *site;
	struct {
		u32 ft; /* 0 with a NULL text: no further entry */
		const char *text;
	} entry[MAX_ENTRIES];
	const char *want; /* bytes, or the word of a refusal when it starts with '!' */
	int chosen;
};

#define I3(n) " cc*" #n " "

static const struct shape shapes[] = {
	/* ---- padding alone: the entry does not apply, the site's own NOPs are made long */
	{"pad 1", "90", {{OFF, "90"}}, "90", -1},
	{"pad 2", "90*2", {{OFF, ""}}, "6690", -1},
	{"pad 3", "90*3", {{OFF, ""}}, "0f1f00", -1},
	{"pad 4", "90*4", {{OFF, ""}}, "0f1f4000", -1},
	{"pad 5", "90*5", {{OFF, ""}}, "0f1f440000", -1},
	{"pad 6", "90*6", {{OFF, ""}}, "660f1f440000", -1},
	{"pad 7", "90*7", {{OFF, ""}}, "0f1f8000000000", -1},
	{"pad 8", "90*8", {{OFF, ""}}, "0f1f840000000000", -1},
	{"pad 9", "90*9", {{OFF, ""}}, "2e0f1f840000000000", -1},
	{"pad 10", "90*10", {{OFF, ""}}, "662e0f1f840000000000", -1},
	{"pad 11", "90*11", {{OFF, ""}}, "66662e0f1f840000000000", -1},
	{"pad 12 jumps", "90*12", {{OFF, ""}}, "eb0a" I3(10), -1},
	{"pad 13 jumps", "90*13", {{OFF, ""}}, "eb0b" I3(11), -1},
	{"pad 127: last near jump", "90*127", {{OFF, ""}}, "eb7d" I3(125), -1},
	{"pad 128: first far jump", "90*128", {{OFF, ""}}, "e97b000000" I3(123), -1},
	{"pad 129", "90*129", {{OFF, ""}}, "e97c000000" I3(124), -1},
	{"pad 254, the longest site", "90*254", {{OFF, ""}}, "e9f9000000" I3(249), -1},
	/* ---- where NOPs stand, and what is none */
	{"NOPs before the payload", "90*3 31c0", {{OFF, ""}}, "0f1f00 31c0", -1},
	{"NOPs behind the payload", "31c0 90*3", {{OFF, ""}}, "31c0 0f1f00", -1},
	{"NOPs on both sides", "90*2 31c0 90*4", {{OFF, ""}}, "6690 31c0 0f1f4000", -1},
	{"PAUSE is no NOP", "90 f390 90*2", {{OFF, ""}}, "90 f390 6690", -1},
	{"two PAUSEs", "f390 f390", {{OFF, ""}}, "f390 f390", -1},
	{"long NOPs merge", "6690 0f1f00", {{OFF, ""}}, "0f1f440000", -1},
	{"NOP with a prefix merges", "660f1f440000 90", {{OFF, ""}}, "0f1f8000000000", -1},
	{"XCHG r8, rax is no NOP", "4190 90*2", {{OFF, ""}}, "4190 6690", -1},
	{"ENDBR64 stays", "f30f1efa 90*2", {{OFF, ""}}, "f30f1efa 6690", -1},
	{"a branch target inside NOPs", "7502 90*2 90*3", {{OFF, ""}}, "7502 6690 0f1f00", -1},
	{"a NOP as an immediate", "b890909090 90", {{OFF, ""}}, "b890909090 90", -1},
	/* ---- which entry */
	{"applies", "31c0 90*3", {{ON, "b801000000"}}, "b801000000", 0},
	{"does not apply", "31c0 90*3", {{OFF, "b801000000"}}, "31c0 0f1f00", -1},
	{"NOT of an absent one", "31c0 90*3", {{NOT(OFF), "b801000000"}}, "b801000000", 0},
	{"NOT of a present one", "31c0 90*3", {{NOT(ON), "b801000000"}}, "31c0 0f1f00", -1},
	{"both apply: the last", "31c0", {{ON, "31c9"}, {ON, "31d2"}}, "31d2", 1},
	{"first applies", "31c0", {{ON, "31c9"}, {OFF, "31d2"}}, "31c9", 0},
	{"second applies", "31c0", {{OFF, "31c9"}, {ON, "31d2"}}, "31d2", 1},
	{"neither applies", "31c0", {{OFF, "31c9"}, {NOT(ON), "31d2"}}, "31c0", -1},
	{"other order, NOT", "31c0", {{NOT(OFF), "31d2"}, {NOT(ON), "31c9"}}, "31d2", 0},
	{"three, middle", "31c0", {{OFF, "31c9"}, {ON, "31d2"}, {OFF, "31db"}}, "31d2", 1},
	{"three, last", "31c0", {{ON, "31c9"}, {ON, "31d2"}, {NOT(OFF), "31db"}}, "31db", 2},
	{"three, first", "31c0", {{ON, "31c9"}, {OFF, "31d2"}, {OFF, "31db"}}, "31c9", 0},
	{"ternary, yes", "0f0b", {{X86_FEATURE_ALWAYS, "31c9"}, {ON, "31d2"}}, "31d2", 1},
	{"ternary, no", "0f0b", {{X86_FEATURE_ALWAYS, "31c9"}, {OFF, "31d2"}}, "31c9", 0},
	{"an earlier, longer one leaves nothing", "90*6",
	 {{ON, "b801000000 90"}, {ON, "31d2"}}, "31d2 0f1f4000", 1},
	{"an unknown feature is absent", "31c0", {{4000, "31c9"}}, "31c0", -1},
	/* ---- lengths */
	{"empty replacement", "31c0 90*3", {{ON, ""}}, "0f1f440000", 0},
	{"equal length", "31c0", {{ON, "31c9"}}, "31c9", 0},
	{"shorter by one", "31c0 90", {{ON, "31c9"}}, "31c9 90", 0},
	{"254 against 254", "90*254", {{ON, "50*254"}}, "50*254", 0},
	{"15 bytes of filler behind", "90*20", {{ON, "b801000000"}}, "b801000000 eb0d" I3(13), 0},
	{"longer than its site", "31c0", {{ON, "31c090"}}, "!longer", -1},
	{"too long, but not chosen", "31c0", {{OFF, "31c090"}}, "31c0", -1},
	{"site of 255", "90*255", {{OFF, ""}}, "!254", -1},
	{"half an instruction here", "31c0 e8", {{OFF, ""}}, "!whole", -1},
	{"half an instruction there, which padding would complete", "90*2", {{ON, "b0"}}, "!whole",
	 -1},
	{"nothing whole there", "90", {{ON, "e8"}}, "!whole", -1},
	{"unknown instruction there", "90*2", {{ON, "06 90"}}, "!whole", -1},
	/* ---- what moves with the code */
	{"call", "90*5", {{ON, "e8@800"}}, "e8@800", 0},
	{"call, not first", "90*7", {{ON, "31c0 e8@800"}}, "31c0 e8@800", 0},
	{"two calls", "90*10", {{ON, "e8@800 e8@3f00"}}, "e8@800 e8@3f00", 0},
	{"far jump stays far", "90*5", {{ON, "e9@800"}}, "e9@800", 0},
	{"far jump becomes near, forward", "90*5", {{ON, "e9@1040"}}, "eb~1040" I3(3), 0},
	{"far jump becomes near, backward", "90*5", {{ON, "e9@fa0"}}, "eb~fa0" I3(3), 0},
	{"last forward reach of near", "90*5", {{ON, "e9@1081"}}, "eb7f" I3(3), 0},
	{"one beyond it", "90*5", {{ON, "e9@1082"}}, "e9@1082", 0},
	{"last backward reach of near", "90*5", {{ON, "e9@f82"}}, "eb80" I3(3), 0},
	{"one beyond that", "90*5", {{ON, "e9@f81"}}, "e9@f81", 0},
	{"near-made jump with padding", "90*8", {{ON, "e9@1040"}}, "eb~1040" I3(3) "0f1f00", 0},
	{"far conditional jump", "90*6", {{ON, "0f84@800"}}, "0f84@800", 0},
	{"rip-relative load", "90*7", {{ON, "488b05@3800"}}, "488b05@3800", 0},
	{"rip-relative lea, not first", "90*9", {{ON, "31c0 488d05@3800"}}, "31c0 488d05@3800", 0},
	{"store of an immediate: bytes behind", "90*10",
	 {{ON, "c705@3800-4 01000000"}}, "c705@3800-4 01000000", 0},
	{"just beyond the end, counted from behind the immediate", "90*12",
	 {{ON, "c705 02000000 01000000"}}, "c705 02100000 01000000 6690", 0},
	{"compare with imm8: one byte behind", "90*7",
	 {{ON, "803d@3800-1 07"}}, "803d@3800-1 07", 0},
	{"indirect call through memory", "90*6", {{ON, "ff15@3800"}}, "ff15@3800", 0},
	{"SSE load", "90*8", {{ON, "f30f6f05@3800"}}, "f30f6f05@3800", 0},
	{"VEX load", "90*8", {{ON, "c5fa6f05@3800"}}, "c5fa6f05@3800", 0},
	{"VEX load with imm8", "90*10", {{ON, "c4e37d1905@3800-1 01"}},
	 "c4e37d1905@3800-1 01", 0},
	{"EVEX load", "90*10", {{ON, "62f17e486f05@3800"}}, "62f17e486f05@3800", 0},
	{"from the second replacement", "90*5", {{OFF, "31c0"}, {ON, "e8@800"}}, "e8@800", 1},
	{"an absolute operand does not move", "90*8",
	 {{ON, "8b0425 00080000 90"}}, "8b0425 00080000 90", 0},
	/* ---- what stays inside */
	{"loop inside, near", "90*4", {{ON, "ffc9 75fc"}}, "ffc9 75fc", 0},
	{"loop inside, far conditional", "90*8", {{ON, "ffc9 0f85f8ffffff"}},
	 "ffc9 0f85f8ffffff", 0},
	{"far jump inside shrinks", "90*7", {{ON, "e900000000 31c0"}}, "eb03" I3(3) "31c0", 0},
	{"jump to the end counts as inside", "90*9", {{ON, "eb02 31c0"}},
	 "eb02 31c0 0f1f440000", 0},
	{"data inside", "90*9", {{ON, "8b05 fdffffff 31c0 90"}}, "8b05 fdffffff 31c0 90", 0},
	/* ---- what no longer reaches */
	{"near jump leaves", "90*2", {{ON, "eb~2050"}}, "!reaches", -1},
	{"near conditional jump leaves", "90*2", {{ON, "74~2050"}}, "!reaches", -1},
	{"loop instruction leaves", "90*2", {{ON, "e2~2050"}}, "!reaches", -1},
	{"jump out of range", "90*5", {{ON, "e9ffffff7f"}}, "!reaches", -1},
	{"operand out of range", "90*7", {{ON, "488b05f8ffff7f"}}, "!reaches", -1},
	/* ---- the direct call */
	{"direct call", "ff15@3000", {{CALL(ON), "e8@BUG"}}, "e8@900 90", 0},
	{"direct call of nothing", "ff15@3008", {{CALL(ON), "e8@BUG"}}, "660f1f440000", 0},
	{"direct call of NULL", "ff15@3010", {{CALL(ON), "e8@BUG"}}, "e8@BUG 90", 0},
	{"direct call, beaten by a later entry", "ff15@3000",
	 {{CALL(ON), "e8@BUG"}, {NOT(OFF), "31c0"}}, "31c0 0f1f4000", 1},
	{"direct call as the later entry", "ff15@3000",
	 {{ON, "31c0"}, {CALL(ON), "e8@BUG"}}, "e8@900 90", 1},
	{"direct call, not chosen", "ff15@3000", {{CALL(OFF), "e8@BUG"}}, "ff15@3000", -1},
	{"direct call of no call", "90*6", {{CALL(ON), "e8@BUG"}}, "!FF 15", -1},
	{"direct call by a jump", "ff15@3000", {{CALL(ON), "e9@BUG"}}, "!FF 15", -1},
	{"direct call out of reach", "ff15@3018", {{CALL(ON), "e8@BUG"}}, "!reach", -1},
	/* ---- the C statement */
	{"statement gone", "488b4108 8b7814 83ef01", {{C(ON), ""}}, "662e0f1f840000000000", 0},
	{"statement stays", "488b4108 8b7814", {{C(OFF), ""}}, "488b4108 8b7814", -1},
	{"statement moved out by the compiler", "", {{C(ON), ""}}, "!between", -1},
	{"statement that branches", "7402 31c0", {{C(OFF), ""}}, "!between", -1},
	{"statement that returns", "31c0 c3", {{C(OFF), ""}}, "!between", -1},
};

/* -------------------------------------------------------------------- bytes from text */

static unsigned hex_digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void put_displacement(const char **text, u8 *buf, size_t *at, u64 here, unsigned size)
{
	const u8 *target;
	long behind = 0;
	s64 rel;

	if (!strncmp(*text, "BUG", 3)) {
		target = (const u8 *)BUG_func;
		*text += 3;
	} else {
		target = lab + strtoul(*text, (char **)text, 16);
	}
	if (**text == '-')
		behind = strtol(*text + 1, (char **)text, 10);
	rel = target - (u8 *)(here + *at + size + (u64)behind);
	memcpy(buf + *at, &rel, size);
	*at += size;
}

/* Bytes of `text` as they read at address `here`. Returns their number. */
static size_t assemble(const char *text, u8 *buf, u64 here)
{
	size_t at = 0;

	while (*text) {
		if (*text == ' ') {
			text++;
		} else if (*text == '@' || *text == '~') {
			unsigned size = *text++ == '@' ? 4 : 1;

			put_displacement(&text, buf, &at, here, size);
		} else {
			u8 byte = (u8)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
			unsigned long times = 1;

			text += 2;
			if (*text == '*')
				times = strtoul(text + 1, (char **)&text, 10);
			memset(buf + at, byte, times);
			at += times;
		}
	}
	return at;
}

static const struct shape *shape_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	}
	fail_msg("no shape %s", name);
	return NULL;
}

static struct alt_instr *table(void)
{
	return (struct alt_instr *)lab;
}

static u8 *site(void)
{
	return lab + SITE_AT;
}

static unsigned build(const struct shape *s)
{
	size_t len;
	unsigned n;

	memset(lab, 0xf4, LAB_BYTES);
	/* Pointers for the direct calls: to lab + 0x900, to nothing, NULL, far away. */
	*(u64 *)(lab + 0x3000) = (u64)lab + 0x900;
	*(u64 *)(lab + 0x3008) = (u64)nop_func;
	*(u64 *)(lab + 0x3010) = 0;
	*(u64 *)(lab + 0x3018) = 0x123456789abcull;
	len = assemble(s->site, site(), (u64)site());
	for (n = 0; n < MAX_ENTRIES && s->entry[n].text; n++) {
		u8 *repl = lab + REPL_AT + n * REPL_STEP;
		struct alt_instr *a = &table()[n];

		a->instr_offset = (s32)(site() - (u8 *)&a->instr_offset);
		a->repl_offset = (s32)(repl - (u8 *)&a->repl_offset);
		a->cpuid = (u16)s->entry[n].ft;
		a->flags = (u16)(s->entry[n].ft >> ALT_FLAGS_SHIFT);
		a->instrlen = (u8)len;
		a->replacementlen = (u8)assemble(s->entry[n].text, repl, (u64)repl);
	}
	return n;
}

/* -------------------------------------------------------------------- the matrix */

static bool same(const struct shape *s, const u8 *have, const u8 *want, size_t len)
{
	if (!memcmp(have, want, len))
		return true;
	print_error("%s:\n  have", s->name);
	for (size_t i = 0; i < len; i++)
		print_error(" %02x", have[i]);
	print_error("\n  want");
	for (size_t i = 0; i < len; i++)
		print_error(" %02x", want[i]);
	print_error("\n");
	return false;
}

static bool check_shape(const struct shape *s)
{
	static struct alt_plan p;
	u8 want[512], before[512];
	unsigned n = build(s);
	size_t len;
	int err;

	memcpy(before, site() - 16, sizeof(before));
	err = alt_decide(&p, table(), table() + n, site(), &machine);
	if (memcmp(before, site() - 16, sizeof(before))) {
		print_error("%s: deciding wrote something\n", s->name);
		return false;
	}
	if (*s->want == '!') {
		if (err < 0 && p.refused && p.chosen == -1 && strstr(p.because, s->want + 1))
			return true;
		print_error("%s: not refused for \"%s\": %d %s\n", s->name, s->want + 1, err, p.because);
		return false;
	}
	len = assemble(s->want, want, (u64)site());
	if (err || p.refused || p.len != len || p.chosen != s->chosen) {
		print_error("%s: %d %s, length %u not %zu, chosen %d not %d\n", s->name, err, p.because,
			    p.len, len, p.chosen, s->chosen);
		return false;
	}
	return same(s, p.after, want, len);
}

static void exact_bytes(void **state)
{
	unsigned bad = 0;

	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		bad += !check_shape(&shapes[i]);
	print_message("%zu shapes\n", ARRAY_SIZE(shapes));
	assert_int_equal(bad, 0);
	assert_true(ARRAY_SIZE(shapes) >= 60);
}

/* Writing: the site gets its bytes, its neighbours keep theirs, a second pass changes nothing. */
static bool check_writing(const struct shape *s)
{
	static struct alt_plan p;
	u8 around[16 + 254 + 16];
	unsigned n = build(s);

	if (alt_decide(&p, table(), table() + n, site(), &machine))
		return true;
	memcpy(around, site() - 16, sizeof(around));
	if (alt_write(&p) || p.refused)
		return false;
	memcpy(around + 16, p.after, p.len);
	if (!same(s, site() - 16, around, sizeof(around)))
		return false;
	if (p.chosen >= 0 && (table()[p.chosen].flags & ALT_FLAG_DIRECT_CALL))
		return true; /* the indirect call is gone: a second pass is refused, rightly */
	if (alt_decide(&p, table(), table() + n, site(), &machine))
		return false;
	return same(s, p.after, site(), p.len);
}

static void writes_only_the_site(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		if (!check_writing(&shapes[i]))
			fail_msg("%s", shapes[i].name);
	}
}

/* The old bytes are compared before: one that differs and nothing is written. */
static void corrupted_original(void **state)
{
	static struct alt_plan p;
	u8 before[64];

	build(shape_named("applies"));
	assert_int_equal(alt_decide(&p, table(), table() + 1, site(), &machine), 0);
	site()[1] ^= 0x40;
	memcpy(before, site(), sizeof(before));
	assert_int_equal(alt_write(&p), -EIO);
	assert_true(p.refused && p.mismatch && p.chosen == -1);
	assert_memory_equal(before, site(), sizeof(before));
	assert_memory_equal(p.found, before, p.len);
	assert_non_null(strstr(p.because, "old bytes"));
}

/* -------------------------------------------------------------------- the second mapping */

int __wrap_platform_text_read(const void *text, void *buf, size_t len);

static u8 stale[ALT_MAX_LEN];
static unsigned reads, stale_from = ~0u;

/* The second mapping, which can be made to show what stood there before the write. */
int __wrap_platform_text_read(const void *text, void *buf, size_t len)
{
	if (!reads)
		memcpy(stale, text, len);
	memcpy(buf, reads++ >= stale_from ? stale : text, len);
	return 0;
}

static void stale_read_back(void **state)
{
	static struct alt_plan p;

	build(shape_named("applies"));
	assert_int_equal(alt_decide(&p, table(), table() + 1, site(), &machine), 0);
	reads = 0;
	stale_from = 1;
	assert_int_equal(alt_write(&p), -EIO);
	stale_from = ~0u;
	assert_true(p.mismatch);
	assert_non_null(strstr(p.because, "read back"));
	assert_memory_equal(p.found, p.before, p.len);
}

/* -------------------------------------------------------------------- lock prefixes */

static void lock_prefix(void **state)
{
	static struct alt_plan p;

	machine.features[X86_FEATURE_UP] = true;
	*site() = 0xf0;
	assert_int_equal(alt_decide_lock(&p, site(), &machine), 0);
	assert_int_equal(p.after[0], 0x3e);
	assert_int_equal(p.chosen, 0);
	machine.features[X86_FEATURE_UP] = false;
	assert_int_equal(alt_decide_lock(&p, site(), &machine), 0);
	assert_int_equal(p.after[0], 0xf0);
	assert_int_equal(p.chosen, -1);
	*site() = 0x3e;
	assert_int_equal(alt_decide_lock(&p, site(), &machine), -EINVAL);
	assert_true(p.refused);
}

static void names(void **state)
{
	char word[32];

	alt_choice_name(SITE_VCPU_IS_PREEMPTED, 1, word, sizeof(word));
	assert_string_equal(word, "false");
	alt_choice_name(SITE_RDTSC_ORDERED, -1, word, sizeof(word));
	assert_string_equal(word, "rdtsc");
	alt_choice_name(-1, 1, word, sizeof(word));
	assert_string_equal(word, "replacement_1");
	alt_choice_name(SITE_STAC, 7, word, sizeof(word));
	assert_string_equal(word, "replacement_7");
	assert_string_equal(alt_site_name(SITE_ALT_TEST), "alternatives_test");
	assert_string_equal(alt_site_name(NR_MCSPIN_SITES), "unnamed");
}

static int make_lab(void **state)
{
	/* Beside the program, so that BUG_func is within reach. */
	u64 near = ((u64)BUG_func & ~0xfffffull) + 0x4000000;

	host_quiet = true;
	if (host_start(1, NULL))
		return -1;
	lab = mmap((void *)near, LAB_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	machine.features[X86_FEATURE_ALWAYS] = true;
	machine.features[X86_FEATURE_ERMS] = true;
	return lab == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_bytes),	      cmocka_unit_test(writes_only_the_site),
		cmocka_unit_test(corrupted_original), cmocka_unit_test(stale_read_back),
		cmocka_unit_test(lock_prefix),	      cmocka_unit_test(names),
	};

	return cmocka_run_group_tests_name("alternatives", tests, make_lab, NULL);
}
