/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Static keys: a branch that is a NOP or a jump in the text, flipped while the program runs. Names,
 * table layout and meaning are Linux's (include/linux/jump_label.h). The control processor flips;
 * any processor may run through a site.
 */
#ifndef MCSPIN_ALT_JUMP_LABEL_H
#define MCSPIN_ALT_JUMP_LABEL_H

#include "../types.h"

struct static_key {
	s32 enabled;
};
/* Two types, so that the initial code of a site follows from the key's default at build time. */
struct static_key_true {
	struct static_key key;
};
struct static_key_false {
	struct static_key key;
};

#define DEFINE_STATIC_KEY_TRUE(name)   struct static_key_true name = {{1}}
#define DEFINE_STATIC_KEY_FALSE(name)  struct static_key_false name = {{0}}
/* Hidden: a site holds the key's address as a link-time constant. */
#define DECLARE_STATIC_KEY_TRUE(name)                                                              \
	extern struct static_key_true name __attribute__((visibility("hidden")))
#define DECLARE_STATIC_KEY_FALSE(name)                                                             \
	extern struct static_key_false name __attribute__((visibility("hidden")))

struct jump_entry {
	s32 code;   /* relative to this field */
	s32 target; /* relative to this field */
	s64 key;    /* relative to this field; bit 0: the site's branch sense */
};
static_assert(sizeof(struct jump_entry) == 16, "the assembler emits 4+4+8");

extern const struct jump_entry __start___jump_table[], __stop___jump_table[];

#define JUMP_TABLE_ENTRY                                                                           \
	".pushsection __jump_table, \"a\", @progbits\n\t.balign 8\n\t"                             \
	".long 1b - .\n\t.long %l[l_yes] - .\n\t.quad %c0 + %c1 - .\n\t.popsection\n\t"

static __always_inline bool arch_static_branch(const struct static_key *const key, const bool branch)
{
	asm goto("1:	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t" JUMP_TABLE_ENTRY
		 :
		 : "i"(key), "i"(branch)
		 :
		 : l_yes);
	return false;
l_yes:
	return true;
}

static __always_inline bool arch_static_branch_jump(const struct static_key *const key,
						    const bool branch)
{
	/* The five-byte form, spelled out: the assembler would choose the short one. */
	asm goto("1:	.byte 0xe9\n\t.long %l[l_yes] - (. + 4)\n\t" JUMP_TABLE_ENTRY
		 :
		 : "i"(key), "i"(branch)
		 :
		 : l_yes);
	return false;
l_yes:
	return true;
}

#define is_true_key(x) __builtin_types_compatible_p(__typeof__(*(x)), struct static_key_true)

/* likely: the branch's code is in line when the key is on; unlikely: out of line. */
#define static_branch_likely(x)                                                                    \
	likely(is_true_key(x) ? !arch_static_branch(&(x)->key, true)                               \
			      : !arch_static_branch_jump(&(x)->key, true))
#define static_branch_unlikely(x)                                                                  \
	unlikely(is_true_key(x) ? arch_static_branch_jump(&(x)->key, false)                        \
				: arch_static_branch(&(x)->key, false))

/* Compare every site with what its key's default promises. 0, or -EINVAL: a site that is neither is
 * named in an event, and its key cannot be flipped. Before any flip, after alt_patch_all(). */
int jump_label_init(void);
/*
 * Idempotent switches and counted ones, as in Linux. 0; -EPERM before jump_label_init() or without
 * writable text (a caught error, said in an event); -EINVAL: a count below zero; or what the
 * patching returned.
 */
int static_key_enable(struct static_key *key);
int static_key_disable(struct static_key *key);
int static_key_slow_inc(struct static_key *key);
int static_key_slow_dec(struct static_key *key);
static inline s32 static_key_count(const struct static_key *key)
{
	return READ_ONCE(key->enabled);
}
/* Sites of a key, and flips of any key so far. */
unsigned static_key_sites(const struct static_key *key);
u64 static_key_flips(void);
/* Ticks that the last flip took, opening and closing the text excluded. */
u64 static_key_flip_ticks(void);

#define static_branch_enable(x)	 static_key_enable(&(x)->key)
#define static_branch_disable(x) static_key_disable(&(x)->key)
#define static_branch_inc(x)	 static_key_slow_inc(&(x)->key)
#define static_branch_dec(x)	 static_key_slow_dec(&(x)->key)

#endif
