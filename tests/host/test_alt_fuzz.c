/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random sites and replacements, executed: a replacement must compute the same in the place it was
 * assembled for and in the site it was moved to, and a site whose entry does not apply must compute
 * the same before and after its NOPs were rewritten. The code branches inside and outside, near and
 * far, calls, loops, and reads and writes through rip.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "../../src/alt/alternative.h"

#define ROUNDS	  100000
#define INPUTS	  6
#define LAB_BYTES 0x8000
#define SITE_AT	  0x2000
#define REPL_AT	  0x4000
#define DATA_AT	  0x6000
#define PADS	  4

static u8 *lab;
/* Where code may leave to: near the site on both sides, and far from it. */
static const u16 pad_at[PADS] = {SITE_AT - 0x40, SITE_AT + 0x118, 0x400, 0x5000};
static struct machine machine; /* ERMS is there, FSRM is not */
static u64 rng = 88172645463325252ull;

static u32 pick(u32 n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (u32)(rng >> 32) % n;
}

/* -------------------------------------------------------------------- random code */

struct gen {
	u8 *base;
	unsigned at, room;
	/* A forward branch whose target is not known yet. */
	unsigned field, size, due;
};

static void bytes(struct gen *g, const void *b, unsigned n)
{
	memcpy(g->base + g->at, b, n);
	g->at += n;
}

static void byte(struct gen *g, u8 b)
{
	g->base[g->at++] = b;
}

static void word(struct gen *g, u32 w)
{
	bytes(g, &w, 4);
}

/* A displacement to `target`, counted from `behind` bytes after its field. */
static void rel32(struct gen *g, const u8 *target, unsigned behind)
{
	word(g, (u32)(target - (g->base + g->at + 4 + behind)));
}

static void some_nops(struct gen *g)
{
	static const u8 nop3[] = {0x0f, 0x1f, 0x00}, pause[] = {0xf3, 0x90};
	unsigned n = pick(16);

	if (pick(4) == 0)
		bytes(g, nop3, 3);
	if (pick(4) == 0)
		bytes(g, pause, 2);
	while (n-- && g->at + 2 < g->room)
		byte(g, 0x90);
}

static void arithmetic(struct gen *g)
{
	static const u8 imul[] = {0x0f, 0xaf, 0xc1}, xor_ec[] = {0x31, 0xc8};

	byte(g, 0x05); /* add eax, imm32 */
	word(g, (u32)rng);
	if (pick(2))
		bytes(g, imul, 3);
	else
		bytes(g, xor_ec, 2);
}

static void through_rip(struct gen *g)
{
	const u8 *data = lab + DATA_AT + pick(16) * 4;

	byte(g, 0xc7); /* mov dword [rip + data], imm32 */
	byte(g, 0x05);
	rel32(g, data, 4);
	word(g, (u32)rng);
	byte(g, 0x03); /* add eax, [rip + data] */
	byte(g, 0x05);
	rel32(g, data, 0);
}

static void address(struct gen *g)
{
	static const u8 xor_ed[] = {0x31, 0xd0};

	byte(g, 0x48); /* lea rdx, [rip + pad] */
	byte(g, 0x8d);
	byte(g, 0x15);
	rel32(g, lab + pad_at[pick(PADS)], 0);
	bytes(g, xor_ed, 2);
}

static void loop_back(struct gen *g)
{
	static const u8 body[] = {0x01, 0xd0, 0xff, 0xca}; /* add eax, edx; dec edx */
	unsigned top;

	byte(g, 0xba); /* mov edx, imm32 */
	word(g, 1 + pick(9));
	top = g->at;
	bytes(g, body, 4);
	if (pick(2)) {
		byte(g, 0x75);
		byte(g, (u8)(top - (g->at + 1)));
	} else {
		byte(g, 0x0f);
		byte(g, 0x85);
		word(g, top - (g->at + 4));
	}
}

/* test cl, bit; then a branch on it, or on nothing at all. */
static void condition(struct gen *g)
{
	byte(g, 0xf6);
	byte(g, 0xc1);
	byte(g, (u8)(1u << pick(8)));
}

static void branch_inside(struct gen *g)
{
	bool near = pick(2), always = pick(4) == 0;

	if (g->due)
		return;
	condition(g);
	if (near) {
		byte(g, always ? 0xeb : 0x74);
	} else if (always) {
		byte(g, 0xe9);
	} else {
		byte(g, 0x0f);
		byte(g, 0x85);
	}
	g->field = g->at;
	g->size = near ? 1 : 4;
	g->due = 1 + pick(3);
	memset(g->base + g->at, 0, g->size);
	g->at += g->size;
}

static void land(struct gen *g)
{
	s32 rel = (s32)(g->at - (g->field + g->size));

	memcpy(g->base + g->field, &rel, g->size);
	g->due = 0;
}

static void branch_outside(struct gen *g)
{
	const u8 *pad = lab + pad_at[pick(PADS)];

	if (pick(3) == 0) {
		byte(g, 0xe8); /* the pads return, so they can be called */
	} else if (pick(3) == 0) {
		byte(g, 0xe9);
	} else {
		condition(g);
		byte(g, 0x0f);
		byte(g, pick(2) ? 0x84 : 0x85);
	}
	rel32(g, pad, 0);
}

/* Code of at most `room` bytes with a RET behind it, which is not part of it. */
static unsigned generate(u8 *base, unsigned room)
{
	static void (*const kinds[])(struct gen *g) = {some_nops,   arithmetic, through_rip,
						       address,	    loop_back,	branch_inside,
						       branch_outside};
	struct gen g = {base, 0, room, 0, 0, 0};

	while (g.at + 40 < room) {
		kinds[pick(ARRAY_SIZE(kinds))](&g);
		if (g.due && --g.due == 0)
			land(&g);
		if (pick(12) == 0)
			break;
	}
	if (g.due)
		land(&g);
	base[g.at] = 0xc3;
	return g.at;
}

/* -------------------------------------------------------------------- running it */

static u64 run(const u8 *code, u64 a, u64 c)
{
	/* The red zone of this function is not the code's to overwrite. */
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tcall *%2\n\tlea 128(%%rsp), %%rsp"
			 : "+a"(a), "+c"(c)
			 : "r"(code)
			 : "rdx", "cc", "memory");
	return a;
}

struct outcome {
	u64 value[INPUTS];
	u8 data[64];
};

static void observe(const u8 *code, struct outcome *o)
{
	memset(lab + DATA_AT, 0, 64);
	for (u64 i = 0; i < INPUTS; i++)
		o->value[i] = run(code, i * 0x1234567, i * 0x5b);
	memcpy(o->data, lab + DATA_AT, 64);
}

static void make_pads(void)
{
	for (unsigned i = 0; i < PADS; i++) {
		struct gen g = {lab + pad_at[i], 0, 64, 0, 0, 0};

		byte(&g, 0xc1); /* rol eax, 5 */
		byte(&g, 0xc0);
		byte(&g, 5);
		byte(&g, 0x05);
		word(&g, 0x9e3779b9u * (i + 1));
		byte(&g, 0xc3);
	}
}

static void show(const char *what, const u8 *b, unsigned n)
{
	print_error("%s:", what);
	for (unsigned i = 0; i < n; i++)
		print_error(" %02x", b[i]);
	print_error("\n");
}

static struct alt_instr *entry(unsigned len, unsigned repl_len, u16 feature)
{
	struct alt_instr *a = (struct alt_instr *)lab;

	a->instr_offset = (s32)(lab + SITE_AT - (u8 *)&a->instr_offset);
	a->repl_offset = (s32)(lab + REPL_AT - (u8 *)&a->repl_offset);
	a->cpuid = feature;
	a->flags = 0;
	a->instrlen = (u8)len;
	a->replacementlen = (u8)repl_len;
	return a;
}

static bool patched_agrees(const struct alt_instr *a, const struct outcome *want, const char *what)
{
	static struct alt_plan p;
	struct outcome have;

	assert_int_equal(alt_decide(&p, a, a + 1, lab + SITE_AT, &machine), 0);
	memcpy(lab + SITE_AT, p.after, p.len);
	observe(lab + SITE_AT, &have);
	if (!memcmp(&have, want, sizeof(have)))
		return true;
	print_error("%s\n", what);
	show("before", p.before, p.len);
	show("replacement", lab + REPL_AT, a->replacementlen);
	show("after", p.after, p.len);
	return false;
}

static void moved_code(void **state)
{
	struct outcome want;

	for (unsigned r = 0; r < ROUNDS; r++) {
		unsigned len = generate(lab + REPL_AT, 250);
		unsigned room = len + pick(255 - len);

		observe(lab + REPL_AT, &want);
		memset(lab + SITE_AT, 0x90, room);
		lab[SITE_AT + room] = 0xc3;
		assert_true(patched_agrees(entry(room, len, X86_FEATURE_ERMS), &want, "moved"));
	}
	print_message("%u replacements moved and run\n", ROUNDS);
}

static void kept_code(void **state)
{
	struct outcome want;

	for (unsigned r = 0; r < ROUNDS; r++) {
		unsigned len = generate(lab + SITE_AT, 250);

		observe(lab + SITE_AT, &want);
		assert_true(patched_agrees(entry(len, 0, X86_FEATURE_FSRM), &want, "kept"));
	}
	print_message("%u originals with rewritten NOPs run\n", ROUNDS);
}

static int make_lab(void **state)
{
	lab = mmap(NULL, LAB_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	machine.features[X86_FEATURE_ERMS] = true;
	if (lab == MAP_FAILED)
		return -1;
	make_pads();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moved_code),
		cmocka_unit_test(kept_code),
	};

	return cmocka_run_group_tests_name("alt_fuzz", tests, make_lab, NULL);
}
