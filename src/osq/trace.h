/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which instructions a loop really executes, found by single-stepping it (EFLAGS.TF): exact on any
 * machine and in any ring, with or without QEMU's -icount, and a listing of the bytes that stand in
 * memory after patching.
 */
#ifndef MCSPIN_OSQ_TRACE_H
#define MCSPIN_OSQ_TRACE_H

#include "../types.h"

#define TRACE_MAX 512

/* Step through fn(arg); returns the number of instructions, their addresses in `ips`. Calls no
 * site that the handler would run through. 0: more than TRACE_MAX of them. Any processor. */
unsigned trace_run(void (*fn)(unsigned), unsigned arg, const u8 **ips);

struct trace_loop {
	unsigned count;		   /* instructions of one round */
	const u8 *ips[TRACE_MAX];  /* their addresses, in the order of execution */
};
/* One round of fn(n), whose argument is the number of rounds. False when no period shows. */
bool trace_round(void (*fn)(unsigned), struct trace_loop *loop);
/* Bytes of the instruction at `ip` as they stand in memory, at most 15; returns the length. */
unsigned trace_bytes(const u8 *ip, u8 *bytes);

#endif
