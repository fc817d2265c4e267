/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every decision about a processor, with made-up CPUID and MSR values: where each feature comes
 * from, what overrules it, which hypervisor is which, and who installs vcpu_is_preempted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "../../src/cpu/features.h"

/* -------------------------------------------------------------------- a made-up processor */

static struct {
	u32 leaf, sub;
	struct cpuid_regs r;
} leaves[64];
static unsigned count;
static struct {
	u32 msr;
	u64 value;
} msrs[8];
static unsigned msr_count;
static bool echo; /* beyond the maximum, answer with the highest leaf's data, as QEMU does */
static struct machine m;

static struct cpuid_regs *leaf(u32 number, u32 sub)
{
	for (unsigned i = 0; i < count; i++) {
		if (leaves[i].leaf == number && leaves[i].sub == sub)
			return &leaves[i].r;
	}
	assert_true(count < ARRAY_SIZE(leaves));
	leaves[count].leaf = number;
	leaves[count].sub = sub;
	memset(&leaves[count].r, 0, sizeof(leaves[count].r));
	return &leaves[count++].r;
}

static void fake_cpuid(const struct cpu_source *src, u32 number, u32 sub, struct cpuid_regs *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < count; i++) {
		if (leaves[i].leaf == number && leaves[i].sub == sub)
			*out = leaves[i].r;
	}
	if (echo && number < 0x40000000u && number > leaf(0, 0)->eax)
		memset(out, 0xff, sizeof(*out));
}

static int fake_rdmsr(const struct cpu_source *src, u32 msr, u64 *value)
{
	for (unsigned i = 0; i < msr_count; i++) {
		if (msrs[i].msr == msr) {
			*value = msrs[i].value;
			return 0;
		}
	}
	return -EIO;
}

static const struct cpu_source fake = {fake_cpuid, fake_rdmsr, NULL};

static void set_msr(u32 msr, u64 value)
{
	msrs[msr_count].msr = msr;
	msrs[msr_count++].value = value;
}

static void signature(u32 base, u32 top, const char text[12])
{
	struct cpuid_regs *r = leaf(base, 0);

	r->eax = top;
	memcpy(&r->ebx, text, 4);
	memcpy(&r->ecx, text + 4, 4);
	memcpy(&r->edx, text + 8, 4);
}

/* A processor of this vendor with all leaves and no feature. */
static void processor(const char vendor[12], u32 version)
{
	struct cpuid_regs *r;

	count = msr_count = 0;
	echo = false;
	r = leaf(0, 0);
	r->eax = 0x20;
	memcpy(&r->ebx, vendor, 4);
	memcpy(&r->edx, vendor + 4, 4);
	memcpy(&r->ecx, vendor + 8, 4);
	leaf(1, 0)->eax = version;
	leaf(0x80000000u, 0)->eax = 0x80000021u;
}

#define CASCADELAKE 0x50657
#define DHYANA	    0x900f01
#define ZEN2	    0x830f10

static void intel(void)
{
	processor("GenuineIntel", CASCADELAKE);
}

static void hygon(void)
{
	processor("HygonGenuine", DHYANA);
}

static void decide(unsigned cpus)
{
	cpu_decide(&m, &fake, cpus);
}

static void hypervisor_bit(void)
{
	leaf(1, 0)->ecx |= 1u << 31;
}

/* -------------------------------------------------------------------- bits */

/* From the Intel SDM (CPUID) and the AMD APM vol. 3 appendix E, apart from the table in features.c. */
enum { A, B, C, D };
static const struct {
	u16 feature;
	u32 leaf;
	u8 reg, bit;
} bits[] = {
	{X86_FEATURE_HYPERVISOR, 1, C, 31},
	{X86_FEATURE_ERMS, 7, B, 9},
	{X86_FEATURE_FSRM, 7, D, 4},
	{X86_FEATURE_SMEP, 7, B, 7},
	{X86_FEATURE_SMAP, 7, B, 20},
	{X86_FEATURE_RDTSCP, 0x80000001u, D, 27},
	{X86_FEATURE_NONSTOP_TSC, 0x80000007u, D, 8},
	{X86_FEATURE_CLFLUSHOPT, 7, B, 23},
	{X86_FEATURE_XSAVE, 1, C, 26},
	{X86_FEATURE_AVX2, 7, B, 5},
	{X86_FEATURE_AVX512F, 7, B, 16},
	{X86_FEATURE_AVX512BW, 7, B, 30},
	{X86_FEATURE_AVX512_VBMI, 7, C, 1},
	{X86_FEATURE_MCE, 1, D, 7},
	{X86_FEATURE_MCA, 1, D, 14},
	{X86_FEATURE_APERFMPERF, 6, C, 0},
	{X86_FEATURE_LA57, 7, C, 16},
	{X86_FEATURE_SHSTK, 7, C, 7},
	{X86_FEATURE_IBT, 7, D, 20},
	{X86_FEATURE_X2APIC, 1, C, 21},
	{X86_FEATURE_OVERFLOW_RECOV, 0x80000007u, B, 0},
	{X86_FEATURE_SUCCOR, 0x80000007u, B, 1},
	{X86_FEATURE_SMCA, 0x80000007u, B, 3},
	{X86_FEATURE_SERIALIZE, 7, D, 14},
};
#define SYNTHETIC 6 /* ALWAYS REP_GOOD LFENCE_RDTSC CONSTANT_TSC VCPUPREEMPT UP */

static void every_bit(void **state)
{
	assert_int_equal(ARRAY_SIZE(bits) + SYNTHETIC, NR_X86_FEATURES);
	for (unsigned i = 0; i < ARRAY_SIZE(bits); i++) {
		hygon();
		decide(2);
		assert_false(m.features[bits[i].feature]);
		(&leaf(bits[i].leaf, 0)->eax)[bits[i].reg] |= 1u << bits[i].bit;
		decide(2);
		if (!m.features[bits[i].feature])
			fail_msg("%s not seen", x86_feature_name(bits[i].feature));
		for (unsigned j = 0; j < ARRAY_SIZE(bits); j++) {
			if (j != i && m.features[bits[j].feature])
				fail_msg("%s seen for %s", x86_feature_name(bits[j].feature),
					 x86_feature_name(bits[i].feature));
		}
	}
}

/* QEMU and some Intel parts answer above the maximum leaf with the highest leaf's data. */
static void above_the_maximum(void **state)
{
	intel();
	leaf(0, 0)->eax = 5;
	memset(leaf(7, 0), 0xff, sizeof(struct cpuid_regs));
	echo = true;
	decide(2);
	assert_false(m.features[X86_FEATURE_ERMS]);
	assert_non_null(strstr(m.because[X86_FEATURE_ERMS], "above the maximum"));
	leaf(0x80000000u, 0)->eax = 0x80000004u;
	leaf(0x80000007u, 0)->edx = ~0u;
	decide(2);
	assert_false(m.features[X86_FEATURE_NONSTOP_TSC]);
	/* No extended range at all: what answers is not of that range. */
	leaf(0x80000000u, 0)->eax = 0x20;
	leaf(0x80000001u, 0)->edx = ~0u;
	decide(2);
	assert_false(m.features[X86_FEATURE_RDTSCP]);
}

/* -------------------------------------------------------------------- who it is */

static void identity(void **state)
{
	static const struct {
		const char *vendor;
		u32 version;
		enum cpu_vendor id;
		u32 family, model, stepping;
	} rows[] = {
		{"GenuineIntel", CASCADELAKE, VENDOR_INTEL, 6, 0x55, 7},
		{"AuthenticAMD", ZEN2, VENDOR_AMD, 0x17, 0x31, 0},
		{"HygonGenuine", DHYANA, VENDOR_HYGON, 0x18, 0, 1},
		{"GenuineIntel", 0x00000f29, VENDOR_INTEL, 15, 2, 9},
		{"CentaurHauls", 0x000006fe, VENDOR_OTHER, 6, 15, 14},
		/* Extended fields of other families do not count. */
		{"AuthenticAMD", 0x00550543, VENDOR_AMD, 5, 4, 3},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		processor(rows[i].vendor, rows[i].version);
		decide(1);
		assert_int_equal(m.vendor, rows[i].id);
		assert_string_equal(m.vendor_id, rows[i].vendor);
		assert_int_equal(m.family, rows[i].family);
		assert_int_equal(m.model, rows[i].model);
		assert_int_equal(m.stepping, rows[i].stepping);
	}
}

static void microcode(void **state)
{
	intel();
	decide(1);
	assert_false(m.microcode_known);
	set_msr(0x8b, 0x0500340100000000ull);
	decide(1);
	assert_true(m.microcode_known && m.microcode == 0x05003401);
	hygon();
	set_msr(0x8b, 0x80901047);
	decide(1);
	assert_true(m.microcode == 0x80901047);
}

static void brand(void **state)
{
	intel();
	memcpy(leaf(0x80000002u, 0), "      Intel(R) X", 16);
	memcpy(leaf(0x80000003u, 0), "eon(R) Gold 6252", 16);
	memcpy(leaf(0x80000004u, 0), " CPU           \0", 16);
	decide(1);
	assert_string_equal(m.brand, "Intel(R) Xeon(R) Gold 6252 CPU");
}

/* -------------------------------------------------------------------- what overrules */

static void fast_strings_off(void **state)
{
	static const struct {
		const char *vendor;
		u32 version;
		int msr; /* -1: cannot be read */
		bool erms, rep_good;
	} rows[] = {
		{"GenuineIntel", CASCADELAKE, 1, true, true},
		{"GenuineIntel", CASCADELAKE, 0, false, false},
		{"GenuineIntel", CASCADELAKE, -1, true, true},
		{"GenuineIntel", 0x000006d0, 0, false, false}, /* model 0xd, the first with the bit */
		{"GenuineIntel", 0x000006c0, 0, true, true},   /* the one before it */
		{"GenuineIntel", 0x00000f29, 0, true, true},   /* another family */
		{"GenuineIntel", 0x00000543, 0, true, false},  /* REP_GOOD begins with family 6 */
		{"AuthenticAMD", ZEN2, 0, true, true},
		{"HygonGenuine", DHYANA, 0, true, true},
		{"AuthenticAMD", 0x00000f29, 0, true, false}, /* K8: stepping C and later */
		{"AuthenticAMD", 0x00000f48, 0, true, true},
		{"AuthenticAMD", 0x00000f50, 0, true, false},
		{"AuthenticAMD", 0x00000f58, 0, true, true},
		{"AuthenticAMD", 0x00060fb1, 0, true, true}, /* QEMU's -cpu max */
		{"AuthenticAMD", 0x00000543, 0, true, false}, /* K6 */
		{"CentaurHauls", 0x000006fe, 0, true, false},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		processor(rows[i].vendor, rows[i].version);
		leaf(7, 0)->ebx = 1u << 9;
		if (rows[i].msr >= 0)
			set_msr(0x1a0, (u64)rows[i].msr | 0x850000);
		decide(2);
		if (m.features[X86_FEATURE_ERMS] != rows[i].erms ||
		    m.features[X86_FEATURE_REP_GOOD] != rows[i].rep_good)
			fail_msg("row %u: ERMS %d REP_GOOD %d", i, m.features[X86_FEATURE_ERMS],
				 m.features[X86_FEATURE_REP_GOOD]);
		if (!rows[i].erms)
			assert_non_null(strstr(m.because[X86_FEATURE_ERMS], "IA32_MISC_ENABLE[0]=0"));
	}
}

static void lfence(void **state)
{
	static const struct {
		bool intel, sse2, always;
		int cfg;
		bool want;
	} rows[] = {
		{true, true, false, -1, true},	 {true, false, false, -1, false},
		{true, true, false, 0, true},	 {false, true, false, -1, true},
		{false, true, false, 2, true},	 {false, true, false, 0, false},
		{false, false, false, 2, false}, {false, true, true, 0, true},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].intel)
			intel();
		else
			hygon();
		leaf(1, 0)->edx = rows[i].sse2 ? 1u << 26 : 0;
		leaf(0x80000021u, 0)->eax = rows[i].always ? 4 : 0;
		if (rows[i].cfg >= 0)
			set_msr(0xc0011029, (u64)rows[i].cfg);
		decide(2);
		if (m.features[X86_FEATURE_LFENCE_RDTSC] != rows[i].want)
			fail_msg("row %u", i);
	}
}

static void constant_tsc(void **state)
{
	static const struct {
		const char *vendor;
		u32 version;
		bool invariant, want;
	} rows[] = {
		{"GenuineIntel", CASCADELAKE, false, true}, {"GenuineIntel", 0x000006e0, false, true},
		{"GenuineIntel", 0x000006d0, false, false}, {"GenuineIntel", 0x00000f30, false, true},
		{"GenuineIntel", 0x00000f29, false, false}, {"HygonGenuine", DHYANA, true, true},
		{"HygonGenuine", DHYANA, false, false},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		processor(rows[i].vendor, rows[i].version);
		leaf(0x80000007u, 0)->edx = rows[i].invariant ? 1u << 8 : 0;
		decide(2);
		assert_int_equal(m.features[X86_FEATURE_NONSTOP_TSC], rows[i].invariant);
		if (m.features[X86_FEATURE_CONSTANT_TSC] != rows[i].want)
			fail_msg("row %u", i);
	}
}

static void one_processor(void **state)
{
	intel();
	decide(1);
	assert_true(m.features[X86_FEATURE_UP] && m.features[X86_FEATURE_ALWAYS]);
	decide(2);
	assert_false(m.features[X86_FEATURE_UP]);
}

/* -------------------------------------------------------------------- hypervisors */

static const struct {
	const char *signature;
	enum hypervisor hv;
	const char *name;
} known[] = {
	{"KVMKVMKVM\0\0\0", HV_KVM, "KVM"},	     {"Microsoft Hv", HV_HYPERV, "Hyper-V"},
	{"XenVMMXenVMM", HV_XEN, "Xen"},	     {"VMwareVMware", HV_VMWARE, "VMware"},
	{"VBoxVBoxVBox", HV_VIRTUALBOX, "VirtualBox"}, {"TCGTCGTCGTCG", HV_TCG, "TCG"},
	{"bhyve bhyve ", HV_BHYVE, "bhyve"},	     {"ACRNACRNACRN", HV_ACRN, "ACRN"},
	{" lrpepyh vr\0", HV_PARALLELS, "Parallels"}, {" prl hyperv ", HV_PARALLELS, "Parallels"},
	{" QNXQVMBSQG ", HV_QNX, "QNX"},
};

static void signatures(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		/* At the usual base, at a later one, at the last one. */
		for (u32 base = 0x40000000u; base <= 0x4000ff00u; base += base == 0x40000000u ? 0x100
												: 0xfe00) {
			intel();
			hypervisor_bit();
			signature(base, base + 1, known[i].signature);
			decide(2);
			if (m.hv != known[i].hv || m.hv_base != base)
				fail_msg("%s at 0x%x: %s", known[i].name, base,
					 hypervisor_name(m.hv));
			assert_string_equal(hypervisor_name(m.hv), known[i].name);
			assert_int_equal(m.emulated, known[i].hv == HV_TCG);
		}
	}
}

static void none_hidden_unknown(void **state)
{
	intel();
	decide(2);
	assert_int_equal(m.hv, HV_NONE);
	assert_string_equal(m.hv_signature, "");
	/* Bit 31 decides, whatever answers. */
	signature(0x40000000u, 0x40000001u, "KVMKVMKVM\0\0\0");
	leaf(0x40000001u, 0)->eax = 1u << 5;
	decide(2);
	assert_int_equal(m.hv, HV_HIDDEN);
	assert_false(m.features[X86_FEATURE_VCPUPREEMPT]);
	/* Emulation that hides is emulation all the same: its times are none. */
	signature(0x40000000u, 0x40000001u, "TCGTCGTCGTCG");
	decide(2);
	assert_true(m.hv == HV_HIDDEN && m.emulated);
	/* Bit 31 and no signature, or one that nobody knows. */
	intel();
	hypervisor_bit();
	decide(2);
	assert_int_equal(m.hv, HV_UNKNOWN);
	signature(0x40000000u, 0x40000001u, "NobodyKnowsM");
	decide(2);
	assert_int_equal(m.hv, HV_UNKNOWN);
	assert_string_equal(m.hv_signature, "NobodyKnowsM");
	assert_false(m.features[X86_FEATURE_VCPUPREEMPT]);
	signature(0x40000000u, 0x40000001u, "KVMKVMKVM\0\0X");
	decide(2);
	assert_int_equal(m.hv, HV_UNKNOWN);
}

/* KVM that offers Hyper-V's leaves first and its own behind them. */
static void kvm_behind_hyperv(void **state)
{
	intel();
	hypervisor_bit();
	signature(0x40000000u, 0x40000005u, "Microsoft Hv");
	signature(0x40000100u, 0x40000101u, "KVMKVMKVM\0\0\0");
	leaf(0x40000101u, 0)->eax = 1u << 5;
	decide(2);
	assert_true(m.hv == HV_KVM && m.hv_base == 0x40000100u);
	assert_true(m.features[X86_FEATURE_VCPUPREEMPT]);
}

/* -------------------------------------------------------------------- vcpu_is_preempted */

#define STEAL_TIME 5
#define UNHALT	   7

/* Steal time alone decides, neither the real-time hint nor PV_UNHALT (Li RongQing, 2022). */
static void kvm_steal_hint_unhalt(void **state)
{
	for (unsigned row = 0; row < 8; row++) {
		bool steal = row & 1, hint = row & 2, unhalt = row & 4;

		intel();
		hypervisor_bit();
		signature(0x40000000u, 0x40000001u, "KVMKVMKVM\0\0\0");
		leaf(0x40000001u, 0)->eax = (u32)steal << STEAL_TIME | (u32)unhalt << UNHALT | 0x1000001;
		leaf(0x40000001u, 0)->edx = hint;
		decide(2);
		assert_int_equal(m.hv_hints, hint);
		if (m.features[X86_FEATURE_VCPUPREEMPT] != steal)
			fail_msg("steal %d hint %d unhalt %d: %d", steal, hint, unhalt,
				 m.features[X86_FEATURE_VCPUPREEMPT]);
		assert_non_null(strstr(m.because[X86_FEATURE_VCPUPREEMPT],
				       steal ? "preempted byte" : "without steal time"));
	}
}

/* The leaf of features must be within the hypervisor's maximum; an old KVM says 0 for base + 1. */
static void kvm_maximum(void **state)
{
	intel();
	hypervisor_bit();
	signature(0x40000000u, 0x40000000u, "KVMKVMKVM\0\0\0");
	leaf(0x40000001u, 0)->eax = 1u << STEAL_TIME;
	decide(2);
	assert_false(m.features[X86_FEATURE_VCPUPREEMPT]);
	signature(0x40000000u, 0, "KVMKVMKVM\0\0\0");
	decide(2);
	assert_true(m.features[X86_FEATURE_VCPUPREEMPT]);
}

static void hyperv_hints(void **state)
{
	for (unsigned row = 0; row < 4; row++) {
		bool idle = row & 1, ipi = row & 2;

		hygon();
		hypervisor_bit();
		signature(0x40000000u, 0x40000005u, "Microsoft Hv");
		leaf(0x40000003u, 0)->eax = (u32)idle << 10;
		leaf(0x40000004u, 0)->eax = (u32)ipi << 10;
		decide(2);
		assert_int_equal(m.features[X86_FEATURE_VCPUPREEMPT], idle && ipi);
		if (idle && ipi)
			assert_non_null(strstr(m.because[X86_FEATURE_VCPUPREEMPT],
					       "always says false"));
	}
}

static void xen_and_the_rest(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].hv == HV_KVM || known[i].hv == HV_HYPERV)
			continue;
		intel();
		hypervisor_bit();
		signature(0x40000000u, 0x40000005u, known[i].signature);
		memset(leaf(0x40000001u, 0), 0xff, sizeof(struct cpuid_regs));
		decide(2);
		assert_int_equal(m.features[X86_FEATURE_VCPUPREEMPT], known[i].hv == HV_XEN);
		decide(1);
		assert_false(m.features[X86_FEATURE_VCPUPREEMPT]);
	}
}

/* -------------------------------------------------------------------- how near */

static struct topology topology(void)
{
	struct topology t;

	decide(2);
	topology_decide(&t, &m, &fake);
	return t;
}

static void leaf_b(u32 sub, u32 type, u32 shift)
{
	leaf(0xb, sub)->ecx = type << 8 | sub;
	leaf(0xb, sub)->eax = shift;
}

static void near_and_far(void **state)
{
	struct topology t;

	intel();
	leaf_b(0, 1, 1); /* two threads a core */
	leaf_b(1, 2, 6);
	leaf(4, 0)->eax = 1 | 1 << 5 | 1 << 14;	 /* first level: its two threads */
	leaf(4, 3)->eax = 0;
	leaf(4, 1)->eax = 3 | 2 << 5 | 1 << 14;
	leaf(4, 2)->eax = 3 | 3 << 5 | 15 << 14; /* third level: sixteen */
	t = topology();
	assert_int_equal(topology_distance(&t, 5, 5), DIST_SELF);
	assert_int_equal(topology_distance(&t, 4, 5), DIST_SMT);
	assert_int_equal(topology_distance(&t, 5, 6), DIST_CACHE);
	assert_int_equal(topology_distance(&t, 15, 16), DIST_SOCKET);
	assert_int_equal(topology_distance(&t, 63, 64), DIST_REMOTE);
	/* A socket of one processor leaves no bit below it. */
	intel();
	leaf_b(0, 1, 0);
	leaf_b(1, 2, 0);
	t = topology();
	assert_int_equal(topology_distance(&t, 0, 1), DIST_REMOTE);
	intel(); /* no leaf says anything */
	t = topology();
	assert_int_equal(topology_distance(&t, 0, 1), DIST_UNKNOWN);
}

/* Hygon C86 7185: four cores with two threads share a cache, eight such in a socket. */
static void near_on_hygon(void **state)
{
	struct topology t;

	hygon();
	leaf(0x8000001eu, 0)->ebx = 1 << 8;
	leaf(0x80000008u, 0)->ecx = 7 << 12;
	leaf(0x8000001du, 0)->eax = 1 | 3 << 5 | 7 << 14;
	t = topology();
	assert_int_equal(topology_distance(&t, 0, 1), DIST_SMT);
	assert_int_equal(topology_distance(&t, 1, 2), DIST_CACHE);
	assert_int_equal(topology_distance(&t, 7, 8), DIST_SOCKET);
	assert_int_equal(topology_distance(&t, 63, 64), DIST_REMOTE); /* bit 6, not 7 */
	hypervisor_bit();
	signature(0x40000000u, 0x40000001u, "KVMKVMKVM\0\0\0");
	t = topology();
	assert_int_equal(topology_distance(&t, 63, 64), DIST_SOCKET); /* a guest's leaves count */
	assert_int_equal(topology_distance(&t, 127, 128), DIST_REMOTE);
}

/* -------------------------------------------------------------------- frozen */

static void frozen(void **state)
{
	intel();
	decide(2);
	assert_int_equal(setup_force_cpu_cap(&m, X86_FEATURE_FSRM, "a test"), 0);
	assert_true(m.features[X86_FEATURE_FSRM]);
	assert_string_equal(m.because[X86_FEATURE_FSRM], "a test");
	assert_int_equal(setup_clear_cpu_cap(&m, X86_FEATURE_FSRM, "a test"), 0);
	assert_int_equal(setup_force_cpu_cap(&m, NR_X86_FEATURES, "a test"), -EINVAL);
	cpu_freeze(&m);
	assert_int_equal(setup_force_cpu_cap(&m, X86_FEATURE_FSRM, "late"), -EPERM);
	assert_int_equal(setup_clear_cpu_cap(&m, X86_FEATURE_ALWAYS, "late"), -EPERM);
	assert_true(!m.features[X86_FEATURE_FSRM] && m.features[X86_FEATURE_ALWAYS]);
}

static void every_reason(void **state)
{
	intel();
	decide(2);
	for (unsigned f = 0; f < NR_X86_FEATURES; f++) {
		assert_non_null(m.because[f]);
		assert_string_not_equal(x86_feature_name(f), "?");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bit),
		cmocka_unit_test(above_the_maximum),
		cmocka_unit_test(identity),
		cmocka_unit_test(microcode),
		cmocka_unit_test(brand),
		cmocka_unit_test(fast_strings_off),
		cmocka_unit_test(lfence),
		cmocka_unit_test(constant_tsc),
		cmocka_unit_test(one_processor),
		cmocka_unit_test(signatures),
		cmocka_unit_test(none_hidden_unknown),
		cmocka_unit_test(kvm_behind_hyperv),
		cmocka_unit_test(kvm_steal_hint_unhalt),
		cmocka_unit_test(kvm_maximum),
		cmocka_unit_test(hyperv_hints),
		cmocka_unit_test(xen_and_the_rest),
		cmocka_unit_test(near_and_far),
		cmocka_unit_test(near_on_hygon),
		cmocka_unit_test(frozen),
		cmocka_unit_test(every_reason),
	};

	return cmocka_run_group_tests_name("features", tests, NULL, NULL);
}
