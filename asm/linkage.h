/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's words for a function in assembler. All are local to the image. */
#ifndef MCSPIN_ASM_LINKAGE_H
#define MCSPIN_ASM_LINKAGE_H

#define SYM_FUNC_START(name)                                                                       \
	.globl name;                                                                               \
	.hidden name;                                                                              \
	.type name, @function;                                                                     \
	.balign 32;                                                                                \
	name:

#define SYM_FUNC_END(name) .size name, . - name

/* A place inside a function that C refers to: loads and stores where a rig injects. */
#define SYM_INNER_LABEL(name)                                                                      \
	.globl name;                                                                               \
	.hidden name;                                                                              \
	name:

	.section .note.GNU-stack, "", @progbits
	.text

#endif
