/* SPDX-License-Identifier: GPL-2.0-only */
/* How near two processors are: bit fields of the APIC id, with widths from the topology leaves. */
#include "features.h"
#include "../platform.h"

/* Bits needed to number `n` things. */
static u32 width(u32 n)
{
	u32 bits = 0;

	while ((1u << bits) < n)
		bits++;
	return bits;
}

/* Intel and newer AMD: leaf 0xB, sub-leaf by level; EAX[4:0] is the shift to the next level. */
static void from_leaf_b(struct topology *t, const struct cpu_source *src)
{
	struct cpuid_regs r;

	for (u32 sub = 0; sub < 8; sub++) {
		if (!cpuid_read(src, 0xb, sub, &r) || !(r.ecx >> 8 & 255))
			break;
		if ((r.ecx >> 8 & 255) == 1)
			t->smt_bits = r.eax & 31;
		t->package_bits = r.eax & 31;
		t->known = true;
	}
}

/* AMD family 17h and Hygon: 8000001E threads, 80000008 core id size. */
static void from_amd(struct topology *t, const struct cpu_source *src)
{
	struct cpuid_regs r;

	if (!cpuid_read(src, 0x8000001eu, 0, &r))
		return;
	t->smt_bits = width((r.ebx >> 8 & 255) + 1);
	if (cpuid_read(src, 0x80000008u, 0, &r))
		t->package_bits = r.ecx >> 12 & 15;
	t->known = t->package_bits > 0;
}

/* The last-level cache's sharing: leaf 4 (Intel) or 8000001D (AMD, Hygon), highest level. */
static void find_cache(struct topology *t, const struct cpu_source *src, u32 leaf)
{
	struct cpuid_regs r;

	for (u32 sub = 0; sub < 8; sub++) {
		if (!cpuid_read(src, leaf, sub, &r) || !(r.eax & 31))
			break;
		if ((r.eax >> 5 & 7) >= 2)
			t->cache_bits = width((r.eax >> 14 & 0xfff) + 1);
	}
}

void topology_decide(struct topology *t, const struct machine *m, const struct cpu_source *src)
{
	bool amd = m->vendor == VENDOR_AMD || m->vendor == VENDOR_HYGON;

	*t = (struct topology){0};
	from_leaf_b(t, src);
	if (!t->known && amd)
		from_amd(t, src);
	/* Linux's hygon.c: on bare metal the socket is in APIC id bits 6 and up, whatever leaves say. */
	if (m->vendor == VENDOR_HYGON && m->model <= 3 && m->hv == HV_NONE) {
		t->package_bits = 6;
		t->known = true;
	}
	find_cache(t, src, amd ? 0x8000001du : 4);
}

enum cpu_distance topology_distance(const struct topology *t, u32 x, u32 y)
{
	if (x == y)
		return DIST_SELF;
	if (!t->known)
		return DIST_UNKNOWN;
	if (x >> t->package_bits != y >> t->package_bits)
		return DIST_REMOTE;
	if (x >> t->smt_bits == y >> t->smt_bits)
		return DIST_SMT;
	if (t->cache_bits && x >> t->cache_bits == y >> t->cache_bits)
		return DIST_CACHE;
	return DIST_SOCKET;
}

enum cpu_distance cpu_distance(unsigned a, unsigned b)
{
	static struct topology here;
	static bool decided;

	if (!decided)
		topology_decide(&here, &boot_cpu_data, &cpu_source_live);
	decided = true;
	return topology_distance(&here, platform_apic_id(a), platform_apic_id(b));
}

const char *cpu_distance_name(enum cpu_distance d)
{
	static const char *const names[] = {"self",   "smt-sibling",  "same-cache",
					    "same-socket", "other-socket", "unknown"};

	return names[d];
}
