/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rewriting text while processors run through it: Linux's breakpoint protocol. A batch of places
 * gets INT3 first, then its tails, then its first bytes, with every processor serialised after each
 * step; whoever runs into an INT3 meanwhile continues as if the new code stood there already.
 */
#ifndef MCSPIN_ALT_TEXT_PATCHING_H
#define MCSPIN_ALT_TEXT_PATCHING_H

#include "../types.h"

struct pt_regs;

#define POKE_MAX 64 /* places in one batch */

/* One place: 5 bytes that are NOP5 or JMP32, before and after. */
#define POKE_LEN 5
struct poke {
	u8 *addr;
	u8 text[POKE_LEN]; /* the new bytes */
};

/* How a batch reaches memory and the processors; tests record the calls. */
struct poke_ops {
	int (*write)(u8 *addr, const u8 *bytes, size_t len);
	int (*sync)(void);
	/* After the last step; may be NULL. */
	int (*settle)(const struct poke *pokes, unsigned count);
};
extern const struct poke_ops poke_ops_live;

/* The three steps over `count` pokes, sorted by address. Text is open. 0; -E2BIG; -EBUSY when an
 * earlier batch is still being read; -ETIMEDOUT when this one is; or what an operation returned
 * (the text is then whole again: every INT3 has been replaced). */
int text_poke_bp_batch(const struct poke *pokes, unsigned count, const struct poke_ops *ops);
/* #BP: true when it was one of ours and `regs` continues correctly. */
bool poke_int3_handler(struct pt_regs *regs);
/* INT3s met since the start, on all processors, and those that came after their batch was over. */
u64 poke_int3_hits(void);
u64 poke_int3_late(void);

#endif
