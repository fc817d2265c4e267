/* SPDX-License-Identifier: GPL-2.0-only */
/* How near two processors are: bit fields of the APIC id, with widths from the topology leaves. */
#include "features.h"
#include "../platform.h"

static u32 smt_bits, cache_bits, package_bits;
static bool known;

/* Bits needed to number `n` things. */
static u32 width(u32 n)
{
	u32 bits = 0;

	while ((1u << bits) < n)
		bits++;
	return bits;
}

/* Intel and newer AMD: leaf 0xB, sub-leaf by level; EAX[4:0] is the shift to the next level. */
static bool from_leaf_b(void)
{
	struct cpuid_regs r;

	for (u32 sub = 0; sub < 8; sub++) {
		if (!cpuid_read(&cpu_source_live, 0xb, sub, &r) || !(r.ecx >> 8 & 255))
			break;
		if ((r.ecx >> 8 & 255) == 1)
			smt_bits = r.eax & 31;
		package_bits = r.eax & 31;
		known = true;
	}
	return known;
}

/* AMD family 17h and Hygon: 8000001E threads, 80000008 core id size. A bare-metal Hygon of model
 * 3 or less has its socket in APIC id bits 6 and up (Linux's hygon.c). */
static void from_amd(void)
{
	const struct machine *m = &boot_cpu_data;
	struct cpuid_regs r;

	if (!cpuid_read(&cpu_source_live, 0x8000001eu, 0, &r))
		return;
	smt_bits = width((r.ebx >> 8 & 255) + 1);
	if (cpuid_read(&cpu_source_live, 0x80000008u, 0, &r))
		package_bits = r.ecx >> 12 & 15;
	if (m->vendor == VENDOR_HYGON && m->model <= 3 && m->hv == HV_NONE)
		package_bits = 6;
	known = package_bits > 0;
}

/* The last-level cache's sharing: leaf 4 (Intel) or 8000001D (AMD, Hygon), highest level. */
static void find_cache(u32 leaf)
{
	struct cpuid_regs r;

	for (u32 sub = 0; sub < 8; sub++) {
		if (!cpuid_read(&cpu_source_live, leaf, sub, &r) || !(r.eax & 31))
			break;
		if ((r.eax >> 5 & 7) >= 2)
			cache_bits = width((r.eax >> 14 & 0xfff) + 1);
	}
}

static void find_topology(void)
{
	bool amd = boot_cpu_data.vendor == VENDOR_AMD || boot_cpu_data.vendor == VENDOR_HYGON;

	if (known)
		return;
	if (!from_leaf_b() && amd)
		from_amd();
	if (boot_cpu_data.vendor == VENDOR_HYGON && boot_cpu_data.model <= 3 &&
	    boot_cpu_data.hv == HV_NONE)
		package_bits = 6;
	find_cache(amd ? 0x8000001du : 4);
	known = true;
}

enum cpu_distance cpu_distance(unsigned a, unsigned b)
{
	u32 x = platform_apic_id(a), y = platform_apic_id(b);

	find_topology();
	if (a == b)
		return DIST_SELF;
	if (!package_bits)
		return DIST_UNKNOWN;
	if (x >> package_bits != y >> package_bits)
		return DIST_REMOTE;
	if (x >> smt_bits == y >> smt_bits)
		return DIST_SMT;
	if (cache_bits && x >> cache_bits == y >> cache_bits)
		return DIST_CACHE;
	return DIST_SOCKET;
}

const char *cpu_distance_name(enum cpu_distance d)
{
	static const char *const names[] = {"self",   "smt-sibling",  "same-cache",
					    "same-socket", "other-socket", "unknown"};

	return names[d];
}
