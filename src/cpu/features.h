/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The decided facts about this machine: vendor, model, hypervisor, and the features on which sites
 * depend. Decided once by cpu_decide(), frozen by cpu_freeze(), and from then on only read: a
 * feature that changes after patching would describe bytes that do not run (Linux warns of the
 * same since ee8962082a44).
 */
#ifndef MCSPIN_CPU_FEATURES_H
#define MCSPIN_CPU_FEATURES_H

/*
 * The closed list, under Linux's names (also in results.json). Plain numbers, because C, inline
 * assembly and the assembler all use them; they are the `cpuid` field of struct alt_instr. Where
 * each comes from and what overrules it is the table in features.c, which asserts this order.
 * VCPUPREEMPT and UP are synthetic: mcspin decides them, as Linux decides its own.
 */
#define X86_FEATURE_ALWAYS           0
#define X86_FEATURE_HYPERVISOR       1
#define X86_FEATURE_REP_GOOD         2
#define X86_FEATURE_ERMS             3
#define X86_FEATURE_FSRM             4
#define X86_FEATURE_SMEP             5
#define X86_FEATURE_SMAP             6
#define X86_FEATURE_RDTSCP           7
#define X86_FEATURE_LFENCE_RDTSC     8
#define X86_FEATURE_CONSTANT_TSC     9
#define X86_FEATURE_NONSTOP_TSC      10
#define X86_FEATURE_CLFLUSHOPT       11
#define X86_FEATURE_XSAVE            12
#define X86_FEATURE_AVX2             13
#define X86_FEATURE_AVX512F          14
#define X86_FEATURE_AVX512BW         15
#define X86_FEATURE_MCE              16
#define X86_FEATURE_MCA              17
#define X86_FEATURE_APERFMPERF       18
#define X86_FEATURE_LA57             19
#define X86_FEATURE_SHSTK            20
#define X86_FEATURE_IBT              21
#define X86_FEATURE_X2APIC           22
#define X86_FEATURE_OVERFLOW_RECOV   23
#define X86_FEATURE_SUCCOR           24
#define X86_FEATURE_SMCA             25
#define X86_FEATURE_SERIALIZE        26
#define X86_FEATURE_VCPUPREEMPT      27
#define X86_FEATURE_UP               28
#define X86_FEATURE_AVX512_VBMI      29
#define NR_X86_FEATURES             30

#ifndef __ASSEMBLY__

/* X(name) for each, in order. */
#define X86_FEATURES(X) \
	X(ALWAYS) \
	X(HYPERVISOR) \
	X(REP_GOOD) \
	X(ERMS) \
	X(FSRM) \
	X(SMEP) \
	X(SMAP) \
	X(RDTSCP) \
	X(LFENCE_RDTSC) \
	X(CONSTANT_TSC) \
	X(NONSTOP_TSC) \
	X(CLFLUSHOPT) \
	X(XSAVE) \
	X(AVX2) \
	X(AVX512F) \
	X(AVX512BW) \
	X(MCE) \
	X(MCA) \
	X(APERFMPERF) \
	X(LA57) \
	X(SHSTK) \
	X(IBT) \
	X(X2APIC) \
	X(OVERFLOW_RECOV) \
	X(SUCCOR) \
	X(SMCA) \
	X(SERIALIZE) \
	X(VCPUPREEMPT) \
	X(UP) \
	X(AVX512_VBMI)

#include "cpuid.h"

enum cpu_vendor { VENDOR_OTHER, VENDOR_INTEL, VENDOR_AMD, VENDOR_HYGON };

enum hypervisor {
	HV_NONE,
	HV_HIDDEN,  /* bit 31 clear, a signature all the same: treated as none */
	HV_UNKNOWN, /* bit 31 set, no signature that we know */
	HV_TCG,
	HV_KVM,
	HV_HYPERV,
	HV_XEN,
	HV_VMWARE,
	HV_VIRTUALBOX,
	HV_BHYVE,
	HV_ACRN,
	HV_PARALLELS,
	HV_QNX,
};

struct machine {
	enum cpu_vendor vendor;
	char vendor_id[13];
	u32 family, model, stepping;
	char brand[49];
	u64 microcode;
	bool microcode_known;
	u32 max_basic, max_extended;
	enum hypervisor hv;
	char hv_signature[13];
	u32 hv_base;	 /* leaf of the signature that decided */
	u32 hv_features; /* KVM: EAX of base + 1; Hyper-V: EAX of 0x40000003 */
	u32 hv_hints;	 /* KVM: EDX of base + 1; Hyper-V: EAX of 0x40000004 */
	bool emulated;	 /* TCG, or the user said icount=: times are no times */
	bool features[NR_X86_FEATURES];
	const char *because[NR_X86_FEATURES]; /* one clause: source and value, what overruled it */
	bool frozen;
};

/* This machine's. Others exist only inside tests and `make plan`. */
extern struct machine boot_cpu_data;

/* Fill `m` from `src`, for a machine of `cpus` processors. Touches nothing else. */
void cpu_decide(struct machine *m, const struct cpu_source *src, unsigned cpus);
/* From now on setup_force_cpu_cap() and setup_clear_cpu_cap() fail. */
void cpu_freeze(struct machine *m);
/* Overrule a feature before the freeze, with a reason. -EPERM after it: a caught error, counted. */
int setup_force_cpu_cap(struct machine *m, unsigned f, const char *because);
int setup_clear_cpu_cap(struct machine *m, unsigned f, const char *because);
/* Linux's name of a feature, "ERMS". */
const char *x86_feature_name(unsigned f);
/* The CPUID leaf that a feature is read from; false for a synthetic one. */
bool x86_feature_leaf(unsigned f, u32 *leaf, u32 *sub);
const char *hypervisor_name(enum hypervisor hv);

#define boot_cpu_has(f) (boot_cpu_data.features[f])

/* How far apart two processors are, nearest first. Decided from APIC ids and the topology leaves. */
enum cpu_distance { DIST_SELF, DIST_SMT, DIST_CACHE, DIST_SOCKET, DIST_REMOTE, DIST_UNKNOWN };
enum cpu_distance cpu_distance(unsigned a, unsigned b);
/* The same for APIC ids, with the widths of their fields from any source. */
struct topology {
	u32 smt_bits, cache_bits, package_bits; /* APIC ids alike above these bits share the thing */
	bool known;
};
void topology_decide(struct topology *t, const struct machine *m, const struct cpu_source *src);
enum cpu_distance topology_distance(const struct topology *t, u32 x, u32 y);
const char *cpu_distance_name(enum cpu_distance d);

#endif /* !__ASSEMBLY__ */
#endif
