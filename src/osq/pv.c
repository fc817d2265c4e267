/* SPDX-License-Identifier: GPL-2.0-only */
/* Who answers vcpu_is_preempted(): the back ends, what each must register with its hypervisor, and
 * how that is taken back. */
#include "osq.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"

#define MSR_KVM_STEAL_TIME    0x4b564d03 /* Documentation/virt/kvm/x86/msr.rst */
#define KVM_STEAL_TIME_ENABLE 1
#define XEN_VCPU_OP	      24 /* xen/include/public/vcpu.h */
#define XEN_REGISTER_RUNSTATE 5
#define RECORD		      64 /* bytes a processor, for both */

pv_fn pv_vcpu_is_preempted = native_vcpu_is_preempted;
u8 *injected_preempted;
u8 *kvm_steal_time;
u8 *xen_runstate;

DEFINE_STATIC_KEY_TRUE(vcpu_has_preemption);

static const char *backend = "native";
static u64 *steal_time_before; /* the MSR as the firmware left it, by processor */
static u32 registered, refused;

void osq_overrule(struct machine *m)
{
	if (options.vcpu == VCPU_NATIVE)
		setup_clear_cpu_cap(m, X86_FEATURE_VCPUPREEMPT, "vcpu=native asks for it");
	if (options.vcpu == VCPU_INJECTED)
		setup_force_cpu_cap(m, X86_FEATURE_VCPUPREEMPT, "vcpu=injected asks for it");
}

static void install(const char *name, pv_fn fn)
{
	backend = name;
	pv_vcpu_is_preempted = fn;
}

void osq_choose_backend(void)
{
	size_t cpus = platform_cpus();

	injected_preempted = platform_alloc(cpus + 2);
	kvm_steal_time = platform_alloc((cpus + 2) * RECORD);
	xen_runstate = platform_alloc((cpus + 2) * RECORD);
	steal_time_before = platform_alloc(cpus * sizeof(u64));
	if (!injected_preempted || !kvm_steal_time || !xen_runstate || !steal_time_before) {
		event_warn("no memory for vcpu_is_preempted(): the native function stays");
		return;
	}
	if (!boot_cpu_has(X86_FEATURE_VCPUPREEMPT))
		return;
	if (options.vcpu == VCPU_INJECTED)
		install("injected", injected_vcpu_is_preempted);
	else if (boot_cpu_data.hv == HV_KVM)
		install("kvm", kvm_vcpu_is_preempted);
	else if (boot_cpu_data.hv == HV_XEN)
		install("xen", xen_vcpu_is_preempted);
	else if (boot_cpu_data.hv == HV_HYPERV)
		install("hyperv", hv_vcpu_is_preempted);
}

void osq_decide(void)
{
	if (!boot_cpu_has(X86_FEATURE_VCPUPREEMPT) && static_branch_disable(&vcpu_has_preemption))
		event_warn("the key vcpu_has_preemption could not be switched off");
	event_begin("vcpu_is_preempted");
	event_str("backend", backend);
	event_str("because", boot_cpu_data.because[X86_FEATURE_VCPUPREEMPT]);
	event_bool("key", static_key_count(&vcpu_has_preemption.key) > 0);
	event_end();
}

/* -------------------------------------------------------------------- registering */

static void count(int err)
{
	__atomic_fetch_add(err ? &refused : &registered, 1, __ATOMIC_RELAXED);
}

/* The memory is mapped one to one. */
static void kvm_register(void *arg)
{
	u32 cpu = smp_processor_id();
	u64 record = (u64)(kvm_steal_time + (size_t)cpu * RECORD);
	int err = platform_rdmsr(MSR_KVM_STEAL_TIME, &steal_time_before[cpu]);

	count(err ? err : platform_wrmsr(MSR_KVM_STEAL_TIME, record | KVM_STEAL_TIME_ENABLE));
}

/* A hypercall by hand: VMCALL on Intel, VMMCALL on AMD and Hygon; number in rax. */
static s64 xen_vcpu_op(u64 op, u64 vcpu, void *arg)
{
	s64 ret = XEN_VCPU_OP;
	u64 rdi = op, rsi = vcpu;
	void *rdx = arg;

	if (boot_cpu_data.vendor == VENDOR_AMD || boot_cpu_data.vendor == VENDOR_HYGON)
		__asm__ volatile("vmmcall" : "+a"(ret), "+D"(rdi), "+S"(rsi), "+d"(rdx)::"memory");
	else
		__asm__ volatile("vmcall" : "+a"(ret), "+D"(rdi), "+S"(rsi), "+d"(rdx)::"memory");
	return ret;
}

/* Xen numbers virtual processors as their APIC ids halved (HVM guests). */
static void xen_point_at(u64 area)
{
	u32 cpu = smp_processor_id();

	count(xen_vcpu_op(XEN_REGISTER_RUNSTATE, platform_apic_id(cpu) / 2, &area) != 0);
}

static void xen_register(void *arg)
{
	xen_point_at((u64)(xen_runstate + (size_t)smp_processor_id() * RECORD));
}

static void on_all(void (*fn)(void *))
{
	on_each_cpu(fn, NULL, 1000);
}

void osq_pv_register(void)
{
	if (!platform_ring0())
		return;
	if (pv_vcpu_is_preempted == kvm_vcpu_is_preempted)
		on_all(kvm_register);
	else if (pv_vcpu_is_preempted == xen_vcpu_is_preempted)
		on_all(xen_register);
	else
		return;
	/* A record that nobody writes says "runs", which is what is known then. */
	if (refused)
		event_warn("%s: %u of %u processors could not register for preemption", backend,
			   refused, refused + registered);
	event_begin("vcpu_registered");
	event_str("backend", backend);
	event_u64("processors", registered);
	event_u64("refused", refused);
	event_end();
}

void osq_pv_unregister(void)
{
	if (!registered)
		return;
	if (pv_vcpu_is_preempted == kvm_vcpu_is_preempted)
		platform_wrmsr(MSR_KVM_STEAL_TIME, steal_time_before[smp_processor_id()]);
	else
		xen_point_at(0);
}
