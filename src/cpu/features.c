/* SPDX-License-Identifier: GPL-2.0-only */
/* Decisions about the processor: the table of features, the hypervisor scan, what overrules CPUID. */
#include "features.h"
#include "../platform.h"

struct machine boot_cpu_data;

/* -------------------------------------------------------------------- sources */

static void live_cpuid(const struct cpu_source *src, u32 leaf, u32 sub, struct cpuid_regs *out)
{
	cpuid_raw(leaf, sub, out);
}

static int live_rdmsr(const struct cpu_source *src, u32 msr, u64 *value)
{
	return platform_rdmsr(msr, value);
}

const struct cpu_source cpu_source_live = {live_cpuid, live_rdmsr, NULL};

bool cpuid_read(const struct cpu_source *src, u32 leaf, u32 sub, struct cpuid_regs *out)
{
	u32 base = leaf & 0xffff0000u;

	/* Leaf 0 of a range says how far it goes; QEMU answers beyond it with another leaf's data. */
	src->cpuid(src, base, 0, out);
	if (leaf == base && base != 0x40000000u)
		return base == 0 || (out->eax >> 16) == (base >> 16);
	if (base != 0x40000000u && out->eax >= leaf && (out->eax >> 16) == (base >> 16)) {
		src->cpuid(src, leaf, sub, out);
		return true;
	}
	*out = (struct cpuid_regs){0};
	return false;
}

/* -------------------------------------------------------------------- the table of features */

enum reg { EAX, EBX, ECX, EDX, NONE };

static const struct row {
	const char *name;
	u32 leaf, sub;
	enum reg reg;
	u8 bit;
	const char *source; /* Intel SDM vol. 2A CPUID, AMD APM vol. 3 appendix E */
} rows[NR_X86_FEATURES] = {
#define BIT_OF(f, leaf, sub, reg, bit, text) [X86_FEATURE_##f] = {#f, leaf, sub, reg, bit, text}
#define SYNTHETIC(f, text)		     [X86_FEATURE_##f] = {#f, 0, 0, NONE, 0, text}
	SYNTHETIC(ALWAYS, "always"),
	BIT_OF(HYPERVISOR, 1, 0, ECX, 31, "CPUID.1:ECX[31]"),
	SYNTHETIC(REP_GOOD, "vendor and family, as Linux's init_intel/init_amd/init_hygon"),
	BIT_OF(ERMS, 7, 0, EBX, 9, "CPUID.7.0:EBX[9]"),
	BIT_OF(FSRM, 7, 0, EDX, 4, "CPUID.7.0:EDX[4]"),
	BIT_OF(SMEP, 7, 0, EBX, 7, "CPUID.7.0:EBX[7]"),
	BIT_OF(SMAP, 7, 0, EBX, 20, "CPUID.7.0:EBX[20]"),
	BIT_OF(RDTSCP, 0x80000001, 0, EDX, 27, "CPUID.80000001:EDX[27]"),
	SYNTHETIC(LFENCE_RDTSC, "SSE2; on AMD and Hygon LFENCE must serialise (DE_CFG[1])"),
	SYNTHETIC(CONSTANT_TSC, "invariant TSC, or Intel family 6 model 0xe and later"),
	BIT_OF(NONSTOP_TSC, 0x80000007, 0, EDX, 8, "CPUID.80000007:EDX[8]"),
	BIT_OF(CLFLUSHOPT, 7, 0, EBX, 23, "CPUID.7.0:EBX[23]"),
	BIT_OF(XSAVE, 1, 0, ECX, 26, "CPUID.1:ECX[26]"),
	BIT_OF(AVX2, 7, 0, EBX, 5, "CPUID.7.0:EBX[5]"),
	BIT_OF(AVX512F, 7, 0, EBX, 16, "CPUID.7.0:EBX[16]"),
	BIT_OF(AVX512BW, 7, 0, EBX, 30, "CPUID.7.0:EBX[30]"),
	BIT_OF(MCE, 1, 0, EDX, 7, "CPUID.1:EDX[7]"),
	BIT_OF(MCA, 1, 0, EDX, 14, "CPUID.1:EDX[14]"),
	BIT_OF(APERFMPERF, 6, 0, ECX, 0, "CPUID.6:ECX[0]"),
	BIT_OF(LA57, 7, 0, ECX, 16, "CPUID.7.0:ECX[16]"),
	BIT_OF(SHSTK, 7, 0, ECX, 7, "CPUID.7.0:ECX[7]"),
	BIT_OF(IBT, 7, 0, EDX, 20, "CPUID.7.0:EDX[20]"),
	BIT_OF(X2APIC, 1, 0, ECX, 21, "CPUID.1:ECX[21]"),
	BIT_OF(OVERFLOW_RECOV, 0x80000007, 0, EBX, 0, "CPUID.80000007:EBX[0]"),
	BIT_OF(SUCCOR, 0x80000007, 0, EBX, 1, "CPUID.80000007:EBX[1]"),
	BIT_OF(SMCA, 0x80000007, 0, EBX, 3, "CPUID.80000007:EBX[3]"),
	BIT_OF(SERIALIZE, 7, 0, EDX, 14, "CPUID.7.0:EDX[14]"),
	SYNTHETIC(VCPUPREEMPT, "a hypervisor that installs vcpu_is_preempted"),
	SYNTHETIC(UP, "one processor"),
	BIT_OF(AVX512_VBMI, 7, 0, ECX, 1, "CPUID.7.0:ECX[1]"),
};

static_assert(ARRAY_SIZE(rows) == NR_X86_FEATURES, "one row for each feature");
#define X(n) +1
static_assert(0 X86_FEATURES(X) == NR_X86_FEATURES, "the list and the numbers agree");
#undef X

const char *x86_feature_name(unsigned f)
{
	return f < NR_X86_FEATURES ? rows[f].name : "?";
}

bool x86_feature_leaf(unsigned f, u32 *leaf, u32 *sub)
{
	if (f >= NR_X86_FEATURES || rows[f].reg == NONE)
		return false;
	*leaf = rows[f].leaf;
	*sub = rows[f].sub;
	return true;
}

static void set(struct machine *m, unsigned f, bool value, const char *because)
{
	m->features[f] = value;
	m->because[f] = because;
}

static void read_bits(struct machine *m, const struct cpu_source *src)
{
	for (unsigned f = 0; f < NR_X86_FEATURES; f++) {
		const struct row *r = &rows[f];
		struct cpuid_regs regs;
		u32 *value = &regs.eax;

		if (r->reg == NONE)
			continue;
		if (!cpuid_read(src, r->leaf, r->sub, &regs))
			set(m, f, false, "its leaf is above the maximum");
		else
			set(m, f, value[r->reg] >> r->bit & 1, r->source);
	}
}

/* -------------------------------------------------------------------- identity */

static const struct {
	const char id[13];
	enum cpu_vendor vendor;
} vendors[] = {
	{"GenuineIntel", VENDOR_INTEL},
	{"AuthenticAMD", VENDOR_AMD},
	{"HygonGenuine", VENDOR_HYGON},
};

static void put_regs(char *text, u32 a, u32 b, u32 c)
{
	memcpy(text, &a, 4);
	memcpy(text + 4, &b, 4);
	memcpy(text + 8, &c, 4);
	text[12] = 0;
}

static void identify(struct machine *m, const struct cpu_source *src)
{
	struct cpuid_regs r;

	cpuid_read(src, 0, 0, &r);
	m->max_basic = r.eax;
	put_regs(m->vendor_id, r.ebx, r.edx, r.ecx);
	m->vendor = VENDOR_OTHER;
	for (unsigned i = 0; i < ARRAY_SIZE(vendors); i++) {
		if (!memcmp(m->vendor_id, vendors[i].id, 12))
			m->vendor = vendors[i].vendor;
	}
	if (cpuid_read(src, 0x80000000u, 0, &r))
		m->max_extended = r.eax;
	cpuid_read(src, 1, 0, &r);
	/* Intel SDM, CPUID leaf 1: extended fields count only for families 6 and 15. */
	m->family = r.eax >> 8 & 15;
	m->model = r.eax >> 4 & 15;
	m->stepping = r.eax & 15;
	if (m->family == 6 || m->family == 15)
		m->model |= (r.eax >> 16 & 15) << 4;
	if (m->family == 15)
		m->family += r.eax >> 20 & 255;
}

static void read_brand(struct machine *m, const struct cpu_source *src)
{
	struct cpuid_regs r;
	char *at = m->brand;
	size_t lead = 0, n;

	for (u32 leaf = 0x80000002u; leaf <= 0x80000004u; leaf++, at += 16) {
		if (!cpuid_read(src, leaf, 0, &r))
			break;
		memcpy(at, &r, 16);
	}
	/* Intel right-aligns some names; blanks on either side say nothing. */
	while (m->brand[lead] == ' ')
		lead++;
	memmove(m->brand, m->brand + lead, sizeof(m->brand) - lead);
	for (n = 0; n < sizeof(m->brand) - 1 && m->brand[n]; n++)
		;
	while (n && m->brand[n - 1] == ' ')
		m->brand[--n] = 0;
}

#define MSR_IA32_UCODE_REV    0x8b
#define MSR_AMD64_DE_CFG      0xc0011029 /* bit 1: LFENCE serialises */

static void read_microcode(struct machine *m, const struct cpu_source *src)
{
	u64 value;

	if (src->rdmsr(src, MSR_IA32_UCODE_REV, &value))
		return;
	m->microcode_known = true;
	/* Intel keeps the revision in the upper half, AMD and Hygon in the lower. */
	m->microcode = m->vendor == VENDOR_INTEL ? value >> 32 : (u32)value;
}

/* -------------------------------------------------------------------- hypervisor */

static const struct {
	const char *signature; /* 12 bytes */
	enum hypervisor hv;
	const char *name;
} hypervisors[] = {
	{"KVMKVMKVM\0\0\0", HV_KVM, "KVM"},
	{"Microsoft Hv", HV_HYPERV, "Hyper-V"},
	{"XenVMMXenVMM", HV_XEN, "Xen"},
	{"VMwareVMware", HV_VMWARE, "VMware"},
	{"VBoxVBoxVBox", HV_VIRTUALBOX, "VirtualBox"},
	{"TCGTCGTCGTCG", HV_TCG, "TCG"},
	{"bhyve bhyve ", HV_BHYVE, "bhyve"},
	{"ACRNACRNACRN", HV_ACRN, "ACRN"},
	{" lrpepyh vr", HV_PARALLELS, "Parallels"},
	{" prl hyperv ", HV_PARALLELS, "Parallels"},
	{" QNXQVMBSQG ", HV_QNX, "QNX"},
};

const char *hypervisor_name(enum hypervisor hv)
{
	for (unsigned i = 0; i < ARRAY_SIZE(hypervisors); i++) {
		if (hypervisors[i].hv == hv)
			return hypervisors[i].name;
	}
	return hv == HV_NONE ? "none" : hv == HV_HIDDEN ? "hidden" : "unknown";
}

/* The first base with a signature that we know, as Linux scans (asm/cpuid.h): KVM need not be at
 * the default base when it also offers Hyper-V's leaves. KVM's own leaves win over Hyper-V's. */
static enum hypervisor scan_signatures(struct machine *m, const struct cpu_source *src)
{
	enum hypervisor found = HV_UNKNOWN;
	struct cpuid_regs r;
	char text[13];

	for (u32 base = 0x40000000u; base < 0x40010000u; base += 0x100) {
		src->cpuid(src, base, 0, &r);
		put_regs(text, r.ebx, r.ecx, r.edx);
		if (base == 0x40000000u)
			memcpy(m->hv_signature, text, sizeof(text));
		for (unsigned i = 0; i < ARRAY_SIZE(hypervisors); i++) {
			if (memcmp(text, hypervisors[i].signature, 12))
				continue;
			if (found == HV_UNKNOWN || hypervisors[i].hv == HV_KVM) {
				found = hypervisors[i].hv;
				m->hv_base = base;
				memcpy(m->hv_signature, text, sizeof(text));
			}
		}
		if (found == HV_KVM)
			break;
	}
	return found;
}

/* A leaf of the hypervisor's own range, if its maximum reaches so far. */
static bool hv_leaf(const struct machine *m, const struct cpu_source *src, u32 index,
		    struct cpuid_regs *out)
{
	struct cpuid_regs top;

	src->cpuid(src, m->hv_base, 0, &top);
	/* KVM before 2.6.32 says 0 and means base + 1. */
	if (top.eax < m->hv_base + index && !(m->hv == HV_KVM && !top.eax && index == 1))
		return false;
	src->cpuid(src, m->hv_base + index, 0, out);
	return true;
}

static void find_hypervisor(struct machine *m, const struct cpu_source *src)
{
	enum hypervisor found = scan_signatures(m, src);
	struct cpuid_regs r;

	if (!m->features[X86_FEATURE_HYPERVISOR]) {
		/* Bit 31 decides, as in Linux: leaves above 0x40000000 may answer all the same, and
		 * on bare metal they repeat another leaf, which only a known signature unmasks. */
		m->hv = found == HV_UNKNOWN ? HV_NONE : HV_HIDDEN;
		if (m->hv == HV_NONE)
			m->hv_signature[0] = 0;
		m->emulated = found == HV_TCG;
		return;
	}
	m->hv = found;
	m->emulated = found == HV_TCG;
	if (found == HV_KVM && hv_leaf(m, src, 1, &r)) {
		m->hv_features = r.eax;
		m->hv_hints = r.edx;
	} else if (found == HV_HYPERV && hv_leaf(m, src, 4, &r)) {
		m->hv_hints = r.eax;
		hv_leaf(m, src, 3, &r);
		m->hv_features = r.eax;
	}
}

#define KVM_FEATURE_STEAL_TIME		    (1u << 5)
#define HV_MSR_GUEST_IDLE_AVAILABLE	    (1u << 10) /* leaf 3 EAX */
#define HV_X64_CLUSTER_IPI_RECOMMENDED	    (1u << 10) /* leaf 4 EAX */

/* Is vcpu_is_preempted() another than the native one? One row for each hypervisor that Linux
 * knows: kvm_guest_init(), hv_init_spinlocks(), xen_init_spinlocks(). */
static void decide_vcpupreempt(struct machine *m, unsigned cpus)
{
	bool on = false;
	const char *because;

	switch (m->hv) {
	case HV_KVM:
		on = m->hv_features & KVM_FEATURE_STEAL_TIME;
		because = on ? "KVM offers steal time, whose page has the preempted byte"
			     : "KVM without steal time: the native function stays";
		break;
	case HV_HYPERV:
		on = (m->hv_hints & HV_X64_CLUSTER_IPI_RECOMMENDED) &&
		     (m->hv_features & HV_MSR_GUEST_IDLE_AVAILABLE);
		because = on ? "Hyper-V installs a function that always says false"
			     : "Hyper-V without its spinlock hints: the native function stays";
		break;
	case HV_XEN:
		on = cpus > 1;
		because = on ? "Xen reads the run state of the other processor"
			     : "Xen with one processor: the native function stays";
		break;
	case HV_NONE:
	case HV_HIDDEN:
		because = "no hypervisor: the native function stays";
		break;
	default:
		because = "this hypervisor offers no preemption information";
		break;
	}
	set(m, X86_FEATURE_VCPUPREEMPT, on, because);
}

/* -------------------------------------------------------------------- synthetic features */

/* K8 from stepping C on: the levels of Linux's init_amd_k8(), CPUID.1:EAX as a whole. */
static bool late_k8(const struct machine *m, const struct cpu_source *src)
{
	struct cpuid_regs r;

	cpuid_read(src, 1, 0, &r);
	return m->family == 0xf && ((r.eax >= 0x0f48 && r.eax < 0x0f50) || r.eax >= 0x0f58);
}

static void decide_rep_good(struct machine *m, const struct cpu_source *src)
{
	const char *because = NULL;

	if (m->vendor == VENDOR_INTEL && m->family >= 6)
		because = "Intel family 6 and later";
	else if (m->vendor == VENDOR_HYGON || (m->vendor == VENDOR_AMD && m->family >= 0x10))
		because = "AMD family 10h and later, and Hygon";
	else if (m->vendor == VENDOR_AMD && late_k8(m, src))
		because = "AMD K8, stepping C and later";
	set(m, X86_FEATURE_REP_GOOD, because != NULL,
	    because ? because : "not known of this vendor or family");
}

/* Firmware can switch fast strings off; then Linux believes neither bit (intel.c). */
static void overrule_fast_strings(struct machine *m, const struct cpu_source *src)
{
	u64 misc;

	if (m->vendor != VENDOR_INTEL || m->family != 6 || m->model < 0xd)
		return;
	if (src->rdmsr(src, MSR_IA32_MISC_ENABLE, &misc) || (misc & 1))
		return;
	set(m, X86_FEATURE_ERMS, false, "IA32_MISC_ENABLE[0]=0: fast strings are switched off");
	set(m, X86_FEATURE_REP_GOOD, false, "IA32_MISC_ENABLE[0]=0: fast strings are switched off");
}

static void decide_lfence(struct machine *m, const struct cpu_source *src)
{
	struct cpuid_regs r;
	bool sse2;
	u64 cfg;

	cpuid_read(src, 1, 0, &r);
	sse2 = r.edx >> 26 & 1;
	/* AMD APM vol. 3: 80000021 EAX[2], LFENCE always serialises. */
	if (cpuid_read(src, 0x80000021u, 0, &r) && (r.eax >> 2 & 1)) {
		set(m, X86_FEATURE_LFENCE_RDTSC, sse2, "SSE2, CPUID.80000021:EAX[2]");
		return;
	}
	if (m->vendor != VENDOR_AMD && m->vendor != VENDOR_HYGON) {
		set(m, X86_FEATURE_LFENCE_RDTSC, sse2, "SSE2 (CPUID.1:EDX[26])");
		return;
	}
	/* Without the MSR (a dump, a guest): all of these parts have it set by firmware or by the
	 * always-serialising bit; Linux sets it itself. */
	if (src->rdmsr(src, MSR_AMD64_DE_CFG, &cfg) || (cfg & 2) || m->emulated)
		set(m, X86_FEATURE_LFENCE_RDTSC, sse2, "SSE2, LFENCE serialises (DE_CFG[1])");
	else
		set(m, X86_FEATURE_LFENCE_RDTSC, false, "DE_CFG[1]=0: LFENCE does not serialise");
}

static void decide_tsc(struct machine *m)
{
	bool old_intel = m->vendor == VENDOR_INTEL && ((m->family == 6 && m->model >= 0xe) ||
						       (m->family == 15 && m->model >= 3));

	set(m, X86_FEATURE_CONSTANT_TSC, m->features[X86_FEATURE_NONSTOP_TSC] || old_intel,
	    m->features[X86_FEATURE_NONSTOP_TSC] ? "CPUID.80000007:EDX[8]"
	    : old_intel				 ? "Intel family 6 model 0xe and later"
						 : "not promised");
}

void cpu_decide(struct machine *m, const struct cpu_source *src, unsigned cpus)
{
	memset(m, 0, sizeof(*m));
	identify(m, src);
	read_brand(m, src);
	read_microcode(m, src);
	read_bits(m, src);
	set(m, X86_FEATURE_ALWAYS, true, "always");
	find_hypervisor(m, src);
	decide_rep_good(m, src);
	overrule_fast_strings(m, src);
	decide_lfence(m, src);
	decide_tsc(m);
	decide_vcpupreempt(m, cpus);
	set(m, X86_FEATURE_UP, cpus == 1, cpus == 1 ? "one processor" : "more than one processor");
}

void cpu_freeze(struct machine *m)
{
	m->frozen = true;
}

static int change(struct machine *m, unsigned f, bool value, const char *because)
{
	if (f >= NR_X86_FEATURES)
		return -EINVAL;
	if (m->frozen)
		return -EPERM;
	set(m, f, value, because);
	return 0;
}

int setup_force_cpu_cap(struct machine *m, unsigned f, const char *because)
{
	return change(m, f, true, because);
}

int setup_clear_cpu_cap(struct machine *m, unsigned f, const char *because)
{
	return change(m, f, false, because);
}
