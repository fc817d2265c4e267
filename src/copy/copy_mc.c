/* SPDX-License-Identifier: GPL-2.0-only */
#include "copy_mc.h"
#include "../cpu/features.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"

DEFINE_STATIC_KEY_FALSE(copy_mc_fragile_key);

/* Byte by byte, so that the first byte that cannot be stored ends it exactly there. */
unsigned long copy_mc_fragile_handle_tail(char *to, char *from, unsigned len)
{
	for (; len; len--, to++, from++) {
		if (copy_mc_fragile(to, from, 1))
			break;
	}
	return len;
}

/* -------------------------------------------------------------------- dispatchers */

/* Linux's __uaccess_begin() and end() around a copy; inlined, so that each caller has its own. */
static __always_inline unsigned long to_user(copy_fn copy, void *dst, const void *src, unsigned len)
{
	unsigned long left;

	stac();
	left = copy(dst, src, len);
#ifndef MUTANT_CLAC
	clac();
#endif
	return left;
}

unsigned long copy_mc_to_kernel(void *dst, const void *src, unsigned len)
{
	if (static_branch_unlikely(&copy_mc_fragile_key))
		return copy_mc_fragile(dst, src, len);
	if (boot_cpu_has(X86_FEATURE_ERMS))
		return copy_mc_enhanced_fast_string(dst, src, len);
	return plain_memcpy(dst, src, len);
}

unsigned long copy_mc_to_user_shipped(void *dst, const void *src, unsigned len)
{
	if (static_branch_unlikely(&copy_mc_fragile_key))
		return to_user(copy_mc_fragile, dst, src, len);
	if (boot_cpu_has(X86_FEATURE_ERMS))
		return to_user(copy_mc_enhanced_fast_string, dst, src, len);
	return to_user(copy_user_generic, dst, src, len);
}

unsigned long copy_mc_to_user_regressed(void *dst, const void *src, unsigned len)
{
	unsigned long left = 0;

	if (static_branch_unlikely(&copy_mc_fragile_key))
		left = to_user(copy_mc_fragile, dst, src, len);
	/* What a missing else does: the result above is lost, and the copy runs again. */
	__asm__ volatile("" ::"r"(left));
	left = to_user(copy_mc_generic, dst, src, len);
	return left;
}

unsigned long copy_mc_to_user_fixed(void *dst, const void *src, unsigned len)
{
	unsigned long left = 0;

	if (static_branch_unlikely(&copy_mc_fragile_key))
		left = to_user(copy_mc_fragile, dst, src, len);
#ifndef MUTANT_ELSE
	else
#endif
		left = to_user(copy_mc_generic, dst, src, len);
	return left;
}

unsigned long copy_mc_to_user(void *dst, const void *src, unsigned len)
{
	if (options.dispatcher[0] == 'r')
		return copy_mc_to_user_regressed(dst, src, len);
	if (options.dispatcher[0] == 'f')
		return copy_mc_to_user_fixed(dst, src, len);
	return copy_mc_to_user_shipped(dst, src, len);
}

/* -------------------------------------------------------------------- the table */

/* Every cell spelled out would hide the two that are set. */
#define ROUTINE(fn_, mce_, fault_, careful_, feature_)                                             \
	{.name = #fn_, .fn = fn_, .mce_safe = mce_, .fault_safe = fault_, .careful = careful_,     \
	 .feature = X86_FEATURE_##feature_}
#define USER_DISPATCHER(form, mce_)                                                                \
	{.name = "copy_mc_to_user." #form, .fn = copy_mc_to_user_##form, .mce_safe = mce_,         \
	 .fault_safe = true, .dispatcher = true, .user = true, .feature = X86_FEATURE_ALWAYS}

const struct copy_variant copy_variants[] = {
	/* function, recovers from #MC, from a fault, careful, needs */
	ROUTINE(copy_mc_fragile, true, true, true, ALWAYS),
	ROUTINE(copy_mc_generic, true, true, false, ALWAYS),
	ROUTINE(copy_mc_enhanced_fast_string, true, true, false, ALWAYS),
	ROUTINE(plain_memcpy, false, false, false, ALWAYS),
	ROUTINE(copy_user_generic, false, true, false, ALWAYS),
	ROUTINE(copy_mc_careful_gpr, true, true, true, ALWAYS),
	ROUTINE(copy_mc_careful_sse2, true, true, true, ALWAYS),
	ROUTINE(copy_mc_careful_avx2, true, true, true, AVX2),
	ROUTINE(copy_mc_careful_avx512, true, true, true, AVX512F),
	ROUTINE(copy_mc_careful, true, true, true, ALWAYS),
	/* Recovers when the key or ERMS says so: copy_recovers(). */
	{.name = "copy_mc_to_kernel", .fn = copy_mc_to_kernel, .dispatcher = true,
	 .feature = X86_FEATURE_ALWAYS},
	USER_DISPATCHER(shipped, false),
	USER_DISPATCHER(regressed, true),
	USER_DISPATCHER(fixed, true),
};
const unsigned copy_variant_count = ARRAY_SIZE(copy_variants);

bool copy_variant_usable(const struct copy_variant *v)
{
	return boot_cpu_has(v->feature);
}

/* -------------------------------------------------------------------- who gets fragile */

/* arch/x86/kernel/quirks.c: devices of Intel's server uncore whose capability registers tell a
 * processor that recovers but must not use REP MOVS. */
static const struct fragile_device {
	u16 device;
	bool purley;
	const char *name;
} fragile_devices[] = {
	{0x0ec3, false, "Ivy Bridge-EX"},
	{0x2fc0, false, "Haswell"},
	{0x6fc0, false, "Broadwell"},
	{0x2083, true, "Skylake"},
};

static bool device_says_fragile(const struct fragile_device *d, u32 bus, u32 dev, u32 fn)
{
	u32 capid0, capid5;

	if (platform_pci_read32(0, bus, dev, fn, 0x84, &capid0))
		return false;
	if (!d->purley)
		return capid0 & 0x10;
	if (platform_pci_read32(0, bus, dev, fn, 0x98, &capid5))
		return false;
	return (capid0 & 0xc0) == 0xc0 || (capid5 & 0x1e0);
}

/* The name of a device that asks for the key, or NULL. Uncore devices sit on buses of their own, so
 * all are scanned. */
static const char *find_fragile_device(void)
{
	u32 id;

	for (u32 at = 0; at < 256 * 32 * 8; at++) {
		u32 bus = at >> 8, dev = at >> 3 & 31, fn = at & 7;

		if (platform_pci_read32(0, bus, dev, fn, 0, &id))
			return NULL;
		if (id == ~0u && !fn)
			at |= 7; /* no function 0: no device */
		if ((id & 0xffff) != 0x8086)
			continue;
		for (unsigned i = 0; i < ARRAY_SIZE(fragile_devices); i++) {
			if (id >> 16 == fragile_devices[i].device &&
			    device_says_fragile(&fragile_devices[i], bus, dev, fn))
				return fragile_devices[i].name;
		}
	}
	return NULL;
}

void copy_mc_decide_fragile(void)
{
	const char *because, *device = NULL;
	bool on = options.fragile == OPT_ON;

	if (options.fragile != OPT_AUTO) {
		because = "fragile= said so";
	} else if (boot_cpu_data.vendor != VENDOR_INTEL) {
		because = "only Intel's quirks set it; AMD and Hygon never do";
	} else {
		device = find_fragile_device();
		on = device != NULL;
		because = on ? "a PCI capability register asks for it"
			     : "no PCI device asks for it";
	}
	if (on && static_branch_enable(&copy_mc_fragile_key))
		because = "it should be on, but the key could not be flipped";
	event_begin("fragile_key");
	event_bool("on", static_key_count(&copy_mc_fragile_key.key) > 0);
	event_str("because", because);
	event_str("device", device);
	event_end();
	if (!on && !boot_cpu_has(X86_FEATURE_ERMS)) {
		static const char *const evidence[] = {"feature:ERMS", "event:fragile_key", NULL};

		event_finding("no_recovery",
			      "without ERMS and without the fragile key, copy_mc_to_user and "
			      "copy_mc_to_kernel are plain copies on this platform: a machine check in "
			      "them is not recovered",
			      false, 0, 0, evidence);
	}
}
