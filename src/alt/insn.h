/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Just enough of an x86-64 decoder to move a replacement: length of an instruction, where its
 * relative displacement is, whether it is a NOP. Own code, because Debian's decoders are built
 * with a red zone and vector registers, which firmware interrupts destroy; tests/host checks it
 * against Zydis on every instruction of the image and on random bytes.
 */
#ifndef MCSPIN_ALT_INSN_H
#define MCSPIN_ALT_INSN_H

#include "../types.h"

#define MAX_INSN 15

struct insn {
	u8 length;
	u8 opcode;	/* last opcode byte */
	u8 map;		/* 0: one byte, 1: 0F, 2: 0F38, 3: 0F3A; VEX and EVEX as their map */
	u8 modrm;
	bool has_modrm;
	u8 rel_at, rel_size;   /* branch displacement: offset and size, 0: no branch */
	u8 disp_at;	       /* rip-relative 32-bit displacement: offset, 0: none */
	bool vector;	       /* VEX or EVEX encoded */
	bool rep, opsize, lock; /* F3, 66 and F0 prefixes */
};

/* Decode one instruction of at most `avail` bytes. 0, or -EINVAL: truncated or unknown. */
int insn_decode(struct insn *insn, const u8 *bytes, size_t avail);
/* May the next instruction executed be another than the one that follows? */
bool insn_leaves(const struct insn *insn);
/* A NOP of any length that may be merged with its neighbours. PAUSE (F3 90) is none. */
bool insn_is_nop(const struct insn *insn, const u8 *bytes);

#endif
