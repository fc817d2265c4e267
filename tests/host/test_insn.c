/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * src/alt/insn.c against Zydis: the length of every instruction, where its branch displacement and
 * its rip-relative operand stand, whether it is a NOP. Once over every function of the image, once
 * over random bytes, where what matters is that nothing is accepted with a wrong length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <Zydis/Zydis.h>

#include "elf_image.h"
#include "../../src/alt/insn.h"

#define RANDOM_TRIES 10000000

static ZydisDecoder decoder;
static struct elf_image image;

static bool zydis(const u8 *at, size_t avail, ZydisDecodedInstruction *z)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, at, avail, z));
}

/* Offset of a relative branch displacement as Zydis sees it; 0: none. */
static unsigned zydis_rel(const ZydisDecodedInstruction *z, unsigned *size)
{
	for (unsigned i = 0; i < 2; i++) {
		if (z->raw.imm[i].is_relative) {
			*size = z->raw.imm[i].size / 8;
			return z->raw.imm[i].offset;
		}
	}
	*size = 0;
	return 0;
}

static unsigned zydis_rip(const ZydisDecodedInstruction *z)
{
	bool rip = (z->attributes & ZYDIS_ATTRIB_HAS_MODRM) && z->raw.modrm.mod == 0 &&
		   z->raw.modrm.rm == 5;

	return rip && z->raw.disp.size == 32 ? z->raw.disp.offset : 0;
}

static bool agree(const struct insn *i, const ZydisDecodedInstruction *z, const u8 *at)
{
	unsigned size, rel = zydis_rel(z, &size);
	bool ok = i->length == z->length && i->rel_at == rel && i->rel_size == size &&
		  i->disp_at == zydis_rip(z);

	if (ok && insn_is_nop(i, at))
		ok = z->mnemonic == ZYDIS_MNEMONIC_NOP;
	if (!ok) {
		print_error("disagree: length %u/%u rel %u+%u/%u+%u rip %u/%u:", i->length, z->length,
			    i->rel_at, i->rel_size, rel, size, i->disp_at, zydis_rip(z));
		for (unsigned b = 0; b < 15; b++)
			print_error(" %02x", at[b]);
		print_error("\n");
	}
	return ok;
}

/* From a function's start to its end, instruction by instruction. */
static unsigned sweep(const u8 *at, const u8 *end, unsigned *seen)
{
	ZydisDecodedInstruction z;
	unsigned bad = 0;

	while (at < end && zydis(at, (size_t)(end - at), &z)) {
		struct insn i;

		++*seen;
		if (insn_decode(&i, at, (size_t)(end - at))) {
			print_error("%s refused\n", ZydisMnemonicGetString(z.mnemonic));
			bad++;
		} else {
			bad += !agree(&i, &z, at);
		}
		at += z.length;
	}
	return bad;
}

static void whole_image(void **state)
{
	unsigned bad = 0, seen = 0;

	for (size_t i = 0; i < image.syms; i++) {
		const Elf64_Sym *s = &image.sym[i];

		if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_size)
			bad += sweep(image.base + s->st_value, image.base + s->st_value + s->st_size,
				     &seen);
	}
	print_message("%u instructions of the image\n", seen);
	assert_true(seen > 5000);
	assert_int_equal(bad, 0);
}

static u64 rng = 0x9e3779b97f4a7c15ull;

static u64 next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* What the image never holds and the decoder may refuse: XOP, 3DNow!, MVEX, VIA's PadLock,
 * Knights Corner's branches, and the 16-bit form of XBEGIN. */
static bool exotic(const ZydisDecodedInstruction *z)
{
	return z->encoding == ZYDIS_INSTRUCTION_ENCODING_XOP ||
	       z->encoding == ZYDIS_INSTRUCTION_ENCODING_3DNOW ||
	       z->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
	       z->meta.category == ZYDIS_CATEGORY_PADLOCK ||
	       z->mnemonic == ZYDIS_MNEMONIC_JKZD || z->mnemonic == ZYDIS_MNEMONIC_JKNZD || z->mnemonic == ZYDIS_MNEMONIC_XBEGIN;
}

static void random_bytes(void **state)
{
	unsigned both = 0, refused = 0, bad = 0;
	u8 buf[16];

	for (unsigned n = 0; n < RANDOM_TRIES && bad < 10; n++) {
		u64 a = next_random(), b = next_random();
		ZydisDecodedInstruction z;
		struct insn i;
		bool ours;

		memcpy(buf, &a, 8);
		memcpy(buf + 8, &b, 8);
		if (n & 1) /* the two- and three-byte maps would come up too seldom */
			buf[0] = 0x0f;
		ours = !insn_decode(&i, buf, 15);
		if (!zydis(buf, 15, &z))
			continue;
		if (!ours) {
			refused += !exotic(&z);
			if (!exotic(&z) && refused <= 5)
				print_message("refused: %s %02x %02x %02x %02x\n",
					      ZydisMnemonicGetString(z.mnemonic), buf[0], buf[1],
					      buf[2], buf[3]);
			continue;
		}
		both++;
		bad += !agree(&i, &z, buf);
	}
	print_message("%u random instructions agree, %u refused that Zydis takes\n", both, refused);
	assert_int_equal(bad, 0);
	assert_int_equal(refused, 0);
	assert_true(both > 100000);
}

/* Cut short anywhere, an instruction is refused and nothing beyond is read. */
static void truncated(void **state)
{
	static const u8 movabs[] = {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8};
	struct insn i;

	for (size_t n = 0; n < sizeof(movabs); n++)
		assert_int_not_equal(insn_decode(&i, movabs, n), 0);
	assert_int_equal(insn_decode(&i, movabs, sizeof(movabs)), 0);
	assert_int_equal(i.length, sizeof(movabs));
}

static int open_image(void **state)
{
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	return elf_open(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_image),
		cmocka_unit_test(random_bytes),
		cmocka_unit_test(truncated),
	};

	return cmocka_run_group_tests_name("insn", tests, open_image, NULL);
}
