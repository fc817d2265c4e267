/* SPDX-License-Identifier: GPL-2.0-only */
/* Instruction lengths, from the opcode maps of the Intel SDM vol. 2D, appendix A. */
#include "insn.h"

/* What follows an opcode. */
enum {
	M = 1,	  /* ModRM */
	I8 = 2,	  /* 8-bit immediate */
	IZ = 4,	  /* 32-bit, 16-bit with 66 */
	I16 = 8,
	J8 = 16,  /* 8-bit branch displacement */
	J32 = 32, /* 32-bit branch displacement, 66 ignored in 64-bit mode */
	MO = 64,  /* memory offset: 64 bits, 32 with 67 */
	BAD = 128,
};

#define R8(x) x, x, x, x, x, x, x, x
#define ALU   M, M, M, M, I8, IZ, BAD, BAD

static const u8 one_byte[256] = {
	ALU, ALU, ALU, ALU, ALU, ALU, ALU, ALU,			     /* 00 */
	R8(BAD), R8(BAD),					     /* 40: REX, taken earlier */
	R8(0), R8(0),						     /* 50 */
	BAD, BAD, BAD, M, BAD, BAD, BAD, BAD,			     /* 60 */
	IZ, M | IZ, I8, M | I8, 0, 0, 0, 0,			     /* 68 */
	R8(J8), R8(J8),						     /* 70 */
	M | I8, M | IZ, BAD, M | I8, M, M, M, M,		     /* 80 */
	R8(M),							     /* 88 */
	R8(0), 0, 0, BAD, 0, 0, 0, 0, 0,			     /* 90 */
	MO, MO, MO, MO, 0, 0, 0, 0,				     /* a0 */
	I8, IZ, 0, 0, 0, 0, 0, 0,				     /* a8 */
	R8(I8), R8(IZ),						     /* b0 */
	M | I8, M | I8, I16, 0, BAD, BAD, M | I8, M | IZ,	     /* c0 */
	I16 | I8, 0, I16, 0, 0, I8, BAD, 0,			     /* c8 */
	M, M, M, M, BAD, BAD, BAD, 0,				     /* d0 */
	R8(M),							     /* d8 */
	J8, J8, J8, J8, I8, I8, I8, I8,				     /* e0 */
	J32, J32, BAD, J8, 0, 0, 0, 0,				     /* e8 */
	BAD, 0, BAD, BAD, 0, 0, M, M,				     /* f0 */
	0, 0, 0, 0, 0, 0, M, M,					     /* f8 */
};

static const u8 two_byte[256] = {
	M, M, M, M, BAD, 0, 0, 0, 0, 0, BAD, 0, BAD, M, 0, M | I8,   /* 00 */
	R8(M), R8(M),						     /* 10 */
	M, M, M, M, BAD, BAD, BAD, BAD, R8(M),			     /* 20 */
	0, 0, 0, 0, 0, 0, BAD, 0, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, /* 30 */
	R8(M), R8(M), R8(M), R8(M), R8(M), R8(M),		     /* 40, 50, 60 */
	M | I8, M | I8, M | I8, M | I8, M, M, M, 0,		     /* 70 */
	M, M, BAD, BAD, M, M, M, M,				     /* 78 */
	R8(J32), R8(J32),					     /* 80 */
	R8(M), R8(M),						     /* 90 */
	0, 0, 0, M, M | I8, M, BAD, BAD, 0, 0, 0, M, M | I8, M, M, M, /* a0 */
	M, M, M, M, M, M, M, M, M, M, M | I8, M, M, M, M, M,	     /* b0 */
	M, M, M | I8, M, M | I8, M | I8, M | I8, M, R8(0),	     /* c0 */
	R8(M), R8(M), R8(M), R8(M), R8(M), R8(M),		     /* d0, e0, f0 */
};

struct cursor {
	const u8 *bytes;
	size_t at, avail;
	bool overrun;
};

static u8 next(struct cursor *c)
{
	if (c->at >= c->avail || c->at >= MAX_INSN) {
		c->overrun = true;
		return 0;
	}
	return c->bytes[c->at++];
}

struct prefixes {
	bool opsize, addrsize, rep, lock;
	u8 rex;
};

static bool legacy_prefix(struct prefixes *p, u8 b)
{
	switch (b) {
	case 0x66:
		p->opsize = true;
		return true;
	case 0x67:
		p->addrsize = true;
		return true;
	case 0xf3:
		p->rep = true;
		return true;
	case 0xf0:
		p->lock = true;
		return true;
	case 0xf2: /* REPNE, segments */
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x26:
	case 0x64:
	case 0x65:
		return true;
	default:
		return false;
	}
}

/* Only a REX right before the opcode counts; an earlier one is ignored by the processor. */
static u8 read_prefixes(struct cursor *c, struct prefixes *p)
{
	u8 b;

	for (b = next(c); !c->overrun; b = next(c)) {
		if ((b & 0xf0) == 0x40)
			p->rex = b;
		else if (legacy_prefix(p, b))
			p->rex = 0;
		else
			break;
	}
	return b;
}

/* VEX and EVEX put the map into a field; all of theirs have ModRM except VZEROUPPER. */
static u8 vector_props(struct insn *insn, struct cursor *c, u8 lead)
{
	u8 field = next(c);
	u8 props = M;

	insn->vector = true;
	insn->map = 1;
	if (lead != 0xc5) {
		insn->map = field & (lead == 0x62 ? 7 : 31);
		next(c);
	}
	if (lead == 0x62)
		next(c);
	insn->opcode = next(c);
	if (lead == 0x62 && (insn->map == 5 || insn->map == 6))
		return M; /* AVX512-FP16 */
	if (insn->map == 0 || insn->map > 3)
		return BAD;
	if (insn->map == 3)
		return M | I8;
	if (insn->map == 1) {
		if (insn->opcode == 0x77)
			return lead == 0x62 ? BAD : 0;
		if (two_byte[insn->opcode] & J32)
			return BAD; /* Knights Corner's branches */
		props |= two_byte[insn->opcode] & I8;
	}
	return props;
}

static u8 legacy_props(struct insn *insn, struct cursor *c, u8 b)
{
	insn->opcode = b;
	if (b != 0x0f)
		return one_byte[b];
	insn->map = 1;
	insn->opcode = next(c);
	if (insn->opcode == 0x38 || insn->opcode == 0x3a) {
		insn->map = insn->opcode == 0x38 ? 2 : 3;
		insn->opcode = next(c);
		return insn->map == 3 ? M | I8 : M;
	}
	return two_byte[insn->opcode];
}

static void read_modrm(struct insn *insn, struct cursor *c)
{
	u8 mod, rm, sib;

	insn->has_modrm = true;
	insn->modrm = next(c);
	mod = insn->modrm >> 6;
	rm = insn->modrm & 7;
	/* MOV to and from control and debug registers takes registers whatever mod says. */
	if (mod == 3 || (insn->map == 1 && !insn->vector && (insn->opcode & 0xfc) == 0x20))
		return;
	if (rm == 4) {
		sib = next(c);
		if (mod == 0 && (sib & 7) == 5)
			c->at += 4;
	} else if (mod == 0 && rm == 5) {
		insn->disp_at = (u8)c->at;
		c->at += 4;
	}
	if (mod == 1)
		c->at += 1;
	else if (mod == 2)
		c->at += 4;
}

static void read_immediates(struct insn *insn, struct cursor *c, u8 props, const struct prefixes *p)
{
	/* F6 and F7 have an immediate only as TEST. */
	if (!insn->map && !insn->vector && (insn->opcode & 0xfe) == 0xf6 && !(insn->modrm & 0x30))
		props |= insn->opcode == 0xf6 ? I8 : IZ;
	/* XBEGIN is encoded as a move of an immediate, which is its branch displacement. */
	if (!insn->map && !insn->vector && insn->opcode == 0xc7 && insn->modrm == 0xf8)
		props = p->opsize && !(p->rex & 8) ? BAD : J32;
	/* 8F with another reg than 0 is no POP but AMD's XOP, which nothing here uses. */
	if (!insn->map && !insn->vector && insn->opcode == 0x8f && (insn->modrm & 0x38))
		props = BAD;
	if (props & BAD)
		c->overrun = true;
	if (props & I8)
		c->at += 1;
	if (props & I16)
		c->at += 2;
	if (props & IZ)
		c->at += p->opsize && !(p->rex & 8) ? 2 : 4;
	if (!insn->map && !insn->vector && (insn->opcode & 0xf8) == 0xb8 && (p->rex & 8))
		c->at += 4; /* mov r64, imm64 */
	if (props & MO)
		c->at += p->addrsize ? 4 : 8;
	if (props & (J8 | J32)) {
		insn->rel_at = (u8)c->at;
		insn->rel_size = props & J8 ? 1 : 4;
		c->at += insn->rel_size;
	}
}

int insn_decode(struct insn *insn, const u8 *bytes, size_t avail)
{
	struct cursor c = {bytes, 0, avail, false};
	struct prefixes p = {0};
	u8 b, props;

	memset(insn, 0, sizeof(*insn));
	b = read_prefixes(&c, &p);
	insn->rep = p.rep;
	insn->opsize = p.opsize;
	insn->lock = p.lock;
	if (b == 0xc4 || b == 0xc5 || b == 0x62)
		props = vector_props(insn, &c, b);
	else
		props = legacy_props(insn, &c, b);
	if (c.overrun || (props & BAD))
		return -EINVAL;
	if (props & M)
		read_modrm(insn, &c);
	read_immediates(insn, &c, props, &p);
	if (c.overrun || c.at > avail || c.at > MAX_INSN)
		return -EINVAL;
	insn->length = (u8)c.at;
	return 0;
}

bool insn_is_nop(const struct insn *insn, const u8 *bytes)
{
	if (insn->lock || insn->vector)
		return false;
	if (insn->map == 0 && insn->opcode == 0x90)
		/* F3 90 is PAUSE; with REX.B 90 is XCHG r8, rax. */
		return !insn->rep && (insn->length == 1 || (bytes[insn->length - 2] & 0xf0) != 0x40);
	return insn->map == 1 && insn->opcode == 0x1f && !insn->rep && !(insn->modrm & 0x38);
}

bool insn_leaves(const struct insn *insn)
{
	if (insn->rel_size)
		return true;
	if (insn->map || insn->vector)
		/* SYSCALL, SYSRET, UD2, SYSENTER, SYSEXIT */
		return insn->map == 1 && !insn->vector &&
		       (insn->opcode == 0x05 || insn->opcode == 0x07 || insn->opcode == 0x0b ||
			insn->opcode == 0x34 || insn->opcode == 0x35);
	switch (insn->opcode) {
	case 0xc2: /* RET */
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcc: /* INT3, INT, IRET */
	case 0xcd:
	case 0xcf:
	case 0xf4: /* HLT */
		return true;
	case 0xff: /* CALL and JMP through a register or memory */
		return (insn->modrm >> 3 & 7) >= 2 && (insn->modrm >> 3 & 7) <= 5;
	default:
		return false;
	}
}
