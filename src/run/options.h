/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Options are words `key=value`, from mcspin.cfg beside the image and from the command line, which
 * wins. One table in options.c holds each key with its kind, range, default and help line. An
 * unknown key, a word without `=` or a bad value is an error that names it, before anything runs.
 */
#ifndef MCSPIN_RUN_OPTIONS_H
#define MCSPIN_RUN_OPTIONS_H

#include "../types.h"

enum opt_exit { EXIT_SHELL, EXIT_RESET, EXIT_OFF, EXIT_QEMU };
enum opt_vcpu { VCPU_AUTO, VCPU_NATIVE, VCPU_INJECTED };
enum opt_tristate { OPT_AUTO, OPT_ON, OPT_OFF };

struct options {
	u32 exit;	 /* enum opt_exit */
	u32 hold;	 /* seconds the verdict stays on the screen when not started by the Shell */
	char console[32]; /* "auto", "none", "screen", "com1", "com2", "0x3f8" */
	bool quick, list, help;
	char suite[96], test[96], bench[96]; /* globs, comma-separated; "" is everything */
	u32 cpus;	/* 0: all */
	u32 time;	/* seconds for the whole run; 0: the default budget */
	u32 repeat;	/* times the suites run */
	u64 seed;	/* 0: from the clock */
	u32 fragile;	/* enum opt_tristate */
	u32 repmov;	/* 0: the erratum handler is on; 1: off */
	bool einj;
	bool inject;	/* announce injection points and wait for the rig */
	s32 icount;	/* -1: not said; else the shift of -icount */
	char baseline[128];
	char compare[16]; /* "", "machines" */
	u32 threshold;	  /* percent */
	char dispatcher[16]; /* copy_mc_to_user as "shipped" (default), "regressed", "fixed" */
	u32 vcpu;	     /* enum opt_vcpu: who answers vcpu_is_preempted() */
	char mutant[32];     /* "": none. A deliberate break that a test must catch */
	char text[256];	     /* the words as given, for results.json */
};

extern struct options options;

/* Defaults into `o`. */
void options_init(struct options *o);
/*
 * Parse words from `text` (spaces, newlines; `#` starts a comment) over `o`. Returns 0, or -EINVAL
 * with one sentence in `why` that names `where`, the key and the value.
 */
int options_parse(struct options *o, const char *text, const char *where, char *why, size_t len);
/* The same for a file of `len` bytes with room for one more: an editor's UTF-8 mark is skipped, what is
 * no plain text (UTF-16) is refused. */
int options_parse_file(struct options *o, char *bytes, size_t len, const char *where, char *why,
		       size_t whylen);
/* The help text, one line a key: calls `line` for each. */
void options_help(void (*line)(const char *text));
/* Does `name` match one of the comma-separated globs (`*`, `?`)? An empty list matches all. */
bool glob_list_match(const char *globs, const char *name);

#endif
