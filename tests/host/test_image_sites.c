/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every site of the built image, before and after, for every combination of the features that its
 * entries ask for, judged by Zydis: whole instructions, branches that end in the text, no reachable
 * filler, no way out but the end or a branch. The sites between the labels of C statements are also
 * looked at as the build left them, because nothing else ties the statement to its labels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <Zydis/Zydis.h>

#include "elf_image.h"
#include "../../src/alt/alternative.h"
#include "../../src/alt/jump_label.h"

static ZydisDecoder decoder;
static struct elf_image image;
static const struct alt_instr *table, *table_end;
static unsigned reached_filler; /* sites whose filler was seen not to be reached */

struct code {
	const u8 *bytes; /* as if they stood at `at` */
	const u8 *at;
	size_t len;
	const char *what;
};

static bool zydis(const struct code *c, size_t off, ZydisDecodedInstruction *z,
		  ZydisDecodedOperand *ops)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, c->bytes + off, c->len - off, z,
						   ops));
}

static void complain(const struct code *c, size_t off, const char *why)
{
	const Elf64_Sym *f = elf_function(&image, c->at);

	print_error("%s at %s+0x%lx, byte %zu: %s\n ", c->what, f ? image.str + f->st_name : "?",
		    f ? (long)(c->at - image.base - f->st_value) : (long)(c->at - image.base), off, why);
	for (size_t i = 0; i < c->len && i < 32; i++)
		print_error(" %02x", c->bytes[i]);
	print_error("\n");
}

/* Where a relative branch or a rip-relative operand leads; false: there is none. */
static bool leads_to(const struct code *c, size_t off, const ZydisDecodedInstruction *z,
		     const ZydisDecodedOperand *ops, u64 *to, bool *branch)
{
	for (unsigned i = 0; i < z->operand_count_visible; i++) {
		bool jump = ops[i].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[i].imm.is_relative;
		bool rip = ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			   ops[i].mem.base == ZYDIS_REGISTER_RIP;

		*branch = jump;
		if (jump || rip)
			return ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(z, &ops[i], (u64)c->at + off, to));
	}
	return false;
}

static bool in_text(u64 to)
{
	return to >= (u64)image.text && to < (u64)image.text_end;
}

/* A branch out of the site: to the text, and there to the start of an instruction of a function. */
static bool good_target(u64 to)
{
	const Elf64_Sym *f = elf_function(&image, (const u8 *)to);
	ZydisDecodedInstruction z;
	const u8 *at;

	if (!in_text(to))
		return false;
	if (!f)
		return true; /* a label of assembly without a size */
	for (at = image.base + f->st_value; at < (const u8 *)to; at += z.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, at, 15, &z)))
			return true; /* cannot tell */
	}
	return at == (const u8 *)to;
}

static bool ends_path(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_RET || z->mnemonic == ZYDIS_MNEMONIC_UD2 ||
	       z->meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

/* One instruction: marks its bytes, returns where else the path goes inside (or len). */
static size_t step(const struct code *c, size_t off, size_t *next, unsigned *bad)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	size_t inside = c->len;
	bool branch;
	u64 to;

	*next = c->len;
	if (!zydis(c, off, &z, ops)) {
		complain(c, off, "no whole instruction");
		++*bad;
		return inside;
	}
	if (c->bytes[off] == 0xcc) {
		complain(c, off, "filler can be reached");
		++*bad;
	}
	if (leads_to(c, off, &z, ops, &to, &branch)) {
		if (branch && to >= (u64)c->at && to <= (u64)c->at + c->len) {
			inside = to - (u64)c->at;
		} else if (branch ? !good_target(to) : to - (u64)image.base >= IMAGE_BYTES) {
			complain(c, off, branch ? "branches to no instruction of the text"
						: "reaches outside the image");
			++*bad;
		}
	}
	if (!ends_path(&z))
		*next = off + z.length;
	return inside;
}

/* All paths from the start. */
static unsigned walk(const struct code *c)
{
	bool seen[256] = {false}, todo[256] = {true};
	unsigned bad = 0;
	bool more = c->len > 0;

	while (more) {
		more = false;
		for (size_t off = 0; off < c->len; off++) {
			size_t next, inside;

			if (!todo[off] || seen[off])
				continue;
			seen[off] = true;
			inside = step(c, off, &next, &bad);
			todo[next] = todo[inside] = true;
			more = true;
		}
	}
	for (size_t off = 0; off < c->len; off++)
		reached_filler += c->bytes[off] == 0xcc && !seen[off];
	return bad;
}

/* -------------------------------------------------------------------- features */

static unsigned used_features(u16 *used)
{
	unsigned n = 0;

	for (const struct alt_instr *a = table; a < table_end; a++) {
		unsigned i;

		for (i = 0; i < n && used[i] != a->cpuid; i++)
			;
		if (i == n && a->cpuid != X86_FEATURE_ALWAYS)
			used[n++] = a->cpuid;
	}
	return n;
}

static unsigned check_site(const struct alt_instr *a, const struct machine *m)
{
	u8 *addr = (u8 *)&a->instr_offset + a->instr_offset;
	static struct alt_plan p;
	struct code after = {p.after, addr, 0, "after"};

	if (alt_decide(&p, table, table_end, addr, m)) {
		print_error("refused: %s\n", p.because);
		return 1;
	}
	after.len = p.len;
	return walk(&after);
}

static void before(void **state)
{
	unsigned bad = 0;

	for (const struct alt_instr *a = table; a < table_end; a++) {
		u8 *addr = (u8 *)&a->instr_offset + a->instr_offset;
		struct code c = {addr, addr, a->instrlen, "before"};

		assert_true(in_text((u64)addr));
		bad += walk(&c);
	}
	assert_int_equal(bad, 0);
	assert_true(table_end - table > 20);
}

static void after_in_every_combination(void **state)
{
	u16 used[NR_X86_FEATURES + 1];
	unsigned n = used_features(used), bad = 0;

	assert_true(n >= 5 && n < 16);
	for (unsigned set = 0; set < 1u << n; set++) {
		static struct machine m;

		m.features[X86_FEATURE_ALWAYS] = true;
		for (unsigned i = 0; i < n; i++)
			m.features[used[i]] = set >> i & 1;
		for (const struct alt_instr *a = table; a < table_end; a++)
			bad += check_site(a, &m);
	}
	print_message("%td entries, %u combinations of %u features, %u filler bytes out of reach\n",
		      table_end - table, 1u << n, n, reached_filler);
	assert_int_equal(bad, 0);
	assert_true(reached_filler > 0);
}

/* -------------------------------------------------------------------- C statements */

/* Between the labels: something; no branch, no store, and the value that goes out is written. */
static unsigned check_statement(const struct code *c)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	unsigned bad = 0, writes = 0;

	for (size_t off = 0; off < c->len; off += z.length) {
		if (!zydis(c, off, &z, ops)) {
			complain(c, off, "no whole instruction");
			return bad + 1;
		}
		for (unsigned i = 0; i < z.operand_count_visible; i++) {
			bool write = ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;

			if (write && ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY) {
				complain(c, off, "a C statement stores");
				bad++;
			}
			writes += write && ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER;
		}
		if (z.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE) {
			complain(c, off, "a C statement branches");
			bad++;
		}
	}
	if (!writes) {
		complain(c, 0, "the C statement is not between its labels");
		bad++;
	}
	return bad;
}

static void statements(void **state)
{
	unsigned n = 0, bad = 0;

	for (const struct alt_instr *a = table; a < table_end; a++) {
		u8 *addr = (u8 *)&a->instr_offset + a->instr_offset;
		struct code c = {addr, addr, a->instrlen, "C statement"};

		if (!(a->flags & ALT_FLAG_C_CODE))
			continue;
		n++;
		bad += check_statement(&c);
	}
	print_message("%u C statements\n", n);
	assert_true(n >= 2);
	assert_int_equal(bad, 0);
}

/* -------------------------------------------------------------------- the other tables */

static void static_keys(void **state)
{
	const struct jump_entry *e = (const void *)elf_symbol(&image, "__start___jump_table");
	const struct jump_entry *end = (const void *)elf_symbol(&image, "__stop___jump_table");
	static const u8 nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

	assert_true(e < end);
	for (; e < end; e++) {
		const u8 *code = (const u8 *)&e->code + e->code;
		const u8 *target = (const u8 *)&e->target + e->target;
		s32 rel = (s32)(target - (code + 5));

		assert_true(in_text((u64)code) && good_target((u64)target));
		if (*code == 0xe9)
			assert_memory_equal(code + 1, &rel, 4);
		else
			assert_memory_equal(code, nop5, 5);
	}
}

static void lock_prefixes(void **state)
{
	const s32 *l = (const void *)elf_symbol(&image, "__start___smp_locks");
	const s32 *end = (const void *)elf_symbol(&image, "__stop___smp_locks");

	assert_true(l < end);
	for (; l < end; l++) {
		const u8 *at = (const u8 *)l + *l;
		ZydisDecodedInstruction z;
		u8 up[15];

		assert_true(in_text((u64)at));
		memcpy(up, at, 15);
		assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, up, 15, &z)));
		assert_true(z.attributes & ZYDIS_ATTRIB_HAS_LOCK);
		up[0] = 0x3e;
		assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, up, 15, &z)));
		assert_false(z.attributes & ZYDIS_ATTRIB_HAS_LOCK);
	}
}

/* A patcher that runs through the code which it rewrites is Linux's d35652a5fc99. */
static void patcher_without_sites(void **state)
{
	static const char *const patcher[] = {
		"alt_patch_all", "alt_decide", "alt_write",	     "alt_relocate",
		"alt_fill_nops", "alt_optimize_nops", "insn_decode", "insn_is_nop",
		"alt_hash_outside", "platform_text_open", "platform_text_close",
		"platform_text_read", "memcpy", "memcmp", "memset", "poke_int3_handler",
		"text_poke_bp_batch", "handle_trap", "fixup_exception",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(patcher); i++) {
		const u8 *at = elf_symbol(&image, patcher[i]);
		const Elf64_Sym *f;

		assert_non_null(at);
		f = elf_function(&image, at);
		for (const struct alt_instr *a = table; a < table_end; a++) {
			const u8 *site = (const u8 *)&a->instr_offset + a->instr_offset;

			if (f && site >= at && site < at + f->st_size)
				fail_msg("%s contains a site", patcher[i]);
		}
	}
}

static int open_image(void **state)
{
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (elf_open(&image))
		return -1;
	table = (const void *)elf_symbol(&image, "__alt_instructions");
	table_end = (const void *)elf_symbol(&image, "__alt_instructions_end");
	return table && table_end ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before),
		cmocka_unit_test(after_in_every_combination),
		cmocka_unit_test(statements),
		cmocka_unit_test(static_keys),
		cmocka_unit_test(lock_prefixes),
		cmocka_unit_test(patcher_without_sites),
	};

	return cmocka_run_group_tests_name("image_sites", tests, open_image, NULL);
}
