/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies that survive poison, and the dispatchers that choose one. The routines are in asm/; each
 * returns the residue, the bytes not copied, 0 for a whole copy. `len` is unsigned, as in Linux:
 * 4 GiB and more do not exist here.
 *
 * The user forms write to user memory: between STAC and CLAC where the machine has SMAP.
 */
#ifndef MCSPIN_COPY_COPY_MC_H
#define MCSPIN_COPY_COPY_MC_H

#include "../alt/alternative.h"
#include "../alt/jump_label.h"

typedef unsigned long (*copy_fn)(void *dst, const void *src, unsigned len);

/* asm/copy_mc.S */
unsigned long copy_mc_fragile(void *dst, const void *src, unsigned len);
unsigned long copy_mc_generic(void *dst, const void *src, unsigned len);
unsigned long copy_mc_enhanced_fast_string(void *dst, const void *src, unsigned len);
unsigned long plain_memcpy(void *dst, const void *src, unsigned len);
unsigned long copy_user_generic(void *dst, const void *src, unsigned len);
/* Places of the loads, for injection. */
extern const u8 copy_mc_fragile_read_leading[], copy_mc_fragile_read_words[],
	copy_mc_fragile_read_trailing[], copy_mc_enhanced_fast_string_copy[], copy_mc_generic_copy[];

/* asm/copy_careful.S: mcspin's own; what they promise stands there. */
unsigned long copy_mc_careful(void *dst, const void *src, unsigned len); /* the widest, by site */
unsigned long copy_mc_careful_gpr(void *dst, const void *src, unsigned len);
unsigned long copy_mc_careful_sse2(void *dst, const void *src, unsigned len);
unsigned long copy_mc_careful_avx2(void *dst, const void *src, unsigned len);
unsigned long copy_mc_careful_avx512(void *dst, const void *src, unsigned len);

/* Finish a copy whose store failed, byte by byte; called from the fix-up of copy_mc_fragile. */
unsigned long copy_mc_fragile_handle_tail(char *to, char *from, unsigned len);

/* On: copy_mc_fragile first, for processors that die of a machine check in REP MOVS. */
DECLARE_STATIC_KEY_FALSE(copy_mc_fragile_key);
/* Set the key as fragile= and, for auto, Linux's PCI quirks say; one event with the reason. */
void copy_mc_decide_fragile(void);

/* The dispatchers. */
unsigned long copy_mc_to_kernel(void *dst, const void *src, unsigned len);
unsigned long copy_mc_to_user_shipped(void *dst, const void *src, unsigned len);
/* As posted in v6 to v8: for want of an else, fragile and then generic. */
unsigned long copy_mc_to_user_regressed(void *dst, const void *src, unsigned len);
/* As v9 mended it. */
unsigned long copy_mc_to_user_fixed(void *dst, const void *src, unsigned len);
/* What dispatcher= chose. */
unsigned long copy_mc_to_user(void *dst, const void *src, unsigned len);

/* Every routine and dispatcher, for tests and benches. */
struct copy_variant {
	const char *name;
	copy_fn fn;
	bool mce_safe;	  /* recovers from a machine check at a load */
	bool fault_safe;  /* recovers from a page fault at either side */
	bool careful;	  /* never touches the source beyond its first bad line */
	bool dispatcher;
	bool user;	  /* between STAC and CLAC */
	u16 feature;	  /* X86_FEATURE_* it needs, or ALWAYS */
};
extern const struct copy_variant copy_variants[];
extern const unsigned copy_variant_count;
/* Can this variant run here? */
bool copy_variant_usable(const struct copy_variant *v);

static __always_inline void stac(void)
{
	__asm__ volatile(ALT_SITE(SITE_STAC) ALTERNATIVE("", "stac", X86_FEATURE_SMAP)::: "memory");
}

static __always_inline void clac(void)
{
	__asm__ volatile(ALT_SITE(SITE_CLAC) ALTERNATIVE("", "clac", X86_FEATURE_SMAP)::: "memory");
}

#endif
