/* SPDX-License-Identifier: GPL-2.0-only */
#include "osq.h"
#include "atomic.h"
#include "../cpu/features.h"
#include "../platform.h"
#include "../report/event.h"

pv_fn pv_vcpu_is_preempted = native_vcpu_is_preempted;
u8 *injected_preempted;
u8 *kvm_steal_time;
struct osq_exits osq_exits;
bool osq_count_exits;

DEFINE_STATIC_KEY_TRUE(vcpu_has_preemption);

/* Not in .bss: a thousand lines would weigh on the image file. */
static struct optimistic_spin_node *nodes;

int osq_init(void)
{
	nodes = platform_alloc(platform_cpus() * sizeof(*nodes));
	injected_preempted = platform_alloc(platform_cpus());
	kvm_steal_time = platform_alloc(platform_cpus() * 64ul);
	return nodes && injected_preempted && kvm_steal_time ? 0 : -ENOMEM;
}

void osq_decide(void)
{
	const char *backend = "native";

	if (boot_cpu_data.hv == HV_KVM && boot_cpu_has(X86_FEATURE_VCPUPREEMPT)) {
		pv_vcpu_is_preempted = kvm_vcpu_is_preempted;
		backend = "kvm";
	} else if (boot_cpu_data.hv == HV_HYPERV) {
		backend = "hyperv (always false)";
	}
	if (!boot_cpu_has(X86_FEATURE_VCPUPREEMPT) && static_branch_disable(&vcpu_has_preemption))
		event_warn("the key vcpu_has_preemption could not be switched off");
	event_begin("vcpu_is_preempted");
	event_str("backend", backend);
	event_bool("key", static_key_count(&vcpu_has_preemption.key) > 0);
	event_end();
}

/* The number is increased by one: 0 means that there is nobody. */
static __always_inline s32 encode_cpu(s32 cpu)
{
	return cpu + 1;
}

static __always_inline long node_cpu(const struct optimistic_spin_node *node)
{
	return (long)(u32)node->cpu - 1;
}

static __always_inline struct optimistic_spin_node *decode_cpu(s32 encoded)
{
	return nodes + encoded - 1;
}

static __always_inline struct optimistic_spin_node *this_node(void)
{
	return nodes + smp_processor_id();
}

#define OSQ_COUNT(exit)                                                                            \
	do {                                                                                       \
		if (unlikely(osq_count_exits))                                                     \
			__atomic_fetch_add(&osq_exits.exit, 1, __ATOMIC_RELAXED);                  \
	} while (0)

#ifdef MUTANT_HANDOFF
#define OSQ_HAND_OFF(next) ((void)(next))
#else
#define OSQ_HAND_OFF(next) osq_write((next)->locked, 1)
#endif

/* Today's Linux: the callee is patched to false, the argument is still loaded. */
#define OSQ_NAME(x)	    x##_linux
#define OSQ_PREEMPTED(node) vcpu_is_preempted(node_cpu(osq_read((node)->prev)))
#include "osq_lock.h"

/* The posting of 2022: the statement that sets the argument up is an alternative of its own. */
static __always_inline bool preempted_c_code(struct optimistic_spin_node *node)
{
	long cpu = 0;

	ALTERNATIVE_C_CODE(SITE_VCPU_ARGUMENT,
			   ((ALT_FLAG_NOT | ALT_FLAG_C_CODE) << ALT_FLAGS_SHIFT) |
				   X86_FEATURE_VCPUPREEMPT,
			   cpu, cpu = node_cpu(osq_read(node->prev)));
	return vcpu_is_preempted(cpu);
}
#define OSQ_NAME(x)	    x##_c_code
#define OSQ_PREEMPTED(node) preempted_c_code(node)
#include "osq_lock.h"

/* The reviewers' shape: the key first, so that neither load nor call happens. */
#define OSQ_NAME(x) x##_static_key
#define OSQ_PREEMPTED(node)                                                                        \
	(static_branch_likely(&vcpu_has_preemption) &&                                             \
	 vcpu_is_preempted(node_cpu(osq_read((node)->prev))))
#include "osq_lock.h"

/* -------------------------------------------------------------------- yardsticks */

static s32 ttas_word __aligned(CACHE_LINE);

static bool ttas_lock(void)
{
	for (;;) {
		if (!READ_ONCE(ttas_word) && !atomic_xchg(&ttas_word, 1))
			return true;
		cpu_relax();
	}
}

static void ttas_unlock(void)
{
	smp_store_release(&ttas_word, 0);
}

static bool ttas_idle(void)
{
	return !READ_ONCE(ttas_word);
}

static struct {
	u32 next, owner;
} ticket __aligned(CACHE_LINE);

static bool ticket_lock(void)
{
	u32 mine = __atomic_fetch_add(&ticket.next, 1, __ATOMIC_ACQUIRE);

	while (smp_load_acquire(&ticket.owner) != mine)
		cpu_relax();
	return true;
}

static void ticket_unlock(void)
{
	smp_store_release(&ticket.owner, ticket.owner + 1);
}

static bool ticket_idle(void)
{
	return READ_ONCE(ticket.next) == READ_ONCE(ticket.owner);
}

/* Plain MCS on the same nodes: nobody leaves, nobody asks. */
static struct optimistic_spin_node *mcs_tail __aligned(CACHE_LINE);

static bool mcs_lock(void)
{
	struct optimistic_spin_node *node = this_node(), *prev;

	node->next = NULL;
	node->locked = 0;
	prev = atomic_xchg(&mcs_tail, node);
	if (!prev)
		return true;
	WRITE_ONCE(prev->next, node);
	while (!smp_load_acquire(&node->locked))
		cpu_relax();
	return true;
}

static void mcs_unlock(void)
{
	struct optimistic_spin_node *node = this_node(), *next = READ_ONCE(node->next);

	if (!next) {
		if (cmpxchg_ptr(&mcs_tail, node, NULL) == node)
			return;
		while (!(next = READ_ONCE(node->next)))
			cpu_relax();
	}
	smp_store_release(&next->locked, 1);
}

static bool mcs_idle(void)
{
	return !READ_ONCE(mcs_tail);
}

const struct lock_variant lock_variants[] = {
	{"linux", "argument loaded, callee patched", osq_lock_linux, osq_unlock_linux, idle_linux,
	 true, spin_linux},
	{"c_code", "argument set-up patched out by ALTERNATIVE_C_CODE", osq_lock_c_code,
	 osq_unlock_c_code, idle_c_code, true, spin_c_code},
	{"static_key", "key tested first", osq_lock_static_key, osq_unlock_static_key,
	 idle_static_key, true, spin_static_key},
	{"mcs", "yardstick: plain MCS", mcs_lock, mcs_unlock, mcs_idle, false, NULL},
	{"ticket", "yardstick: ticket lock", ticket_lock, ticket_unlock, ticket_idle, false, NULL},
	{"ttas", "yardstick: test-and-test-and-set", ttas_lock, ttas_unlock, ttas_idle, false, NULL},
};
const unsigned lock_variant_count = ARRAY_SIZE(lock_variants);

const struct lock_variant *lock_variant_find(const char *name)
{
	for (unsigned i = 0; i < lock_variant_count; i++) {
		const char *a = lock_variants[i].name, *b = name;

		while (*a && *a == *b)
			a++, b++;
		if (*a == *b)
			return &lock_variants[i];
	}
	return NULL;
}
