/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The closed list of named sites and of the choices each can make. `results.json`, `make plan` and
 * the README's table use these words; a test compares the README with this list.
 *
 * SITE(id, name, choices): `choices` is a comma-separated list of words: first the original code,
 * then each replacement in the order of its table entries.
 */
#ifndef MCSPIN_ALT_SITES_H
#define MCSPIN_ALT_SITES_H

#define MCSPIN_SITES(SITE)                                                                         \
	SITE(COPY_MC_GENERIC, "copy_mc_generic", "fragile,rep_movsb")                              \
	SITE(MEMCPY, "memcpy", "loop,rep_movsq,rep_movsb")                                   \
	SITE(COPY_USER, "copy_user_generic", "loop,rep_movsq,rep_movsb")                     \
	SITE(CAREFUL, "copy_mc_careful", "gpr,sse2,avx2,avx512")                                   \
	SITE(RDTSC_ORDERED, "rdtsc_ordered", "rdtsc,lfence_rdtsc,rdtscp")                          \
	SITE(TSC_END, "tsc_end", "lfence_rdtsc_lfence,rdtscp_lfence")                              \
	SITE(STAC, "stac", "nop,stac")                                                             \
	SITE(CLAC, "clac", "nop,clac")                                                             \
	SITE(SMP_LOCK, "smp_lock", "lock,ds_prefix")                                               \
	SITE(VCPU_IS_PREEMPTED, "vcpu_is_preempted", "indirect_call,direct_call,false")            \
	SITE(VCPU_ARGUMENT, "vcpu_argument", "load,nop")                                           \
	SITE(CAREFUL_SHIFT, "copy_mc_careful_shift", "split_stores,vpermb")                             \
	SITE(ALT_TEST, "alternatives_test", "original,first,second,third")

/* Their numbers, plain so that the assembler and inline assembly can use them. */
#define SITE_COPY_MC_GENERIC   0
#define SITE_MEMCPY            1
#define SITE_COPY_USER         2
#define SITE_CAREFUL           3
#define SITE_RDTSC_ORDERED     4
#define SITE_TSC_END           5
#define SITE_STAC              6
#define SITE_CLAC              7
#define SITE_SMP_LOCK          8
#define SITE_VCPU_IS_PREEMPTED 9
#define SITE_VCPU_ARGUMENT     10
#define SITE_CAREFUL_SHIFT     11
#define SITE_ALT_TEST          12 /* of the alternatives suite: runs nowhere else */
#define NR_MCSPIN_SITES        13

#endif
