/* SPDX-License-Identifier: GPL-2.0-only */
/* A `cpuid -r` dump as a source of facts for src/cpu, with the MSR values that it cannot hold. */
#ifndef MCSPIN_DUMP_H
#define MCSPIN_DUMP_H

#include "../../src/cpu/cpuid.h"

#define DUMP_LEAVES 512
#define DUMP_MSRS   16

struct dump {
	struct cpu_source source; /* first: the core hands it back */
	struct {
		u32 leaf, sub;
		struct cpuid_regs regs;
	} leaves[DUMP_LEAVES]; /* of the first processor in the file */
	unsigned count;
	unsigned processors;
	/* Given on the command line, and asked for by the core. */
	struct {
		u32 msr;
		u64 value;
		bool given, asked;
	} msrs[DUMP_MSRS];
	unsigned msr_count;
};

/* 0, or -1 with one sentence in `why`: file, line number and what is wrong there. */
int dump_read(struct dump *d, const char *path, char *why, size_t len);
/* Is there a row for this leaf? "Not recorded" is no zero. */
bool dump_has(const struct dump *d, u32 leaf, u32 sub);
/* "0x1a0=0x1": an MSR's value. False: not of that form. */
bool dump_set_msr(struct dump *d, const char *text);
/* Threads of the machine, from the topology leaves where the file holds fewer processors. */
unsigned dump_threads(const struct dump *d);

#endif
