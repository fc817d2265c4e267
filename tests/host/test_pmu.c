// SPDX-License-Identifier: GPL-2.0-only
/*
 * The performance counters, on registers that are made up: which are chosen, that they count what was
 * asked, and that every register is given back, also when one in the middle refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../../src/cpu/pmu.h"
#include "../../src/platform.h"

bool __wrap_platform_ring0(void);
int __wrap_platform_rdmsr(u32 msr, u64 *value);
int __wrap_platform_wrmsr(u32 msr, u64 value);

/* -------------------------------------------------------------------- registers */

static struct {
	u32 msr;
	u64 value;
} regs[16];
static unsigned reg_count, accesses;
static unsigned refuse_at; /* the access that raises #GP, from 1 */
static u32 refuses_writes; /* a register that takes no write */
static bool ring0 = true;

bool __wrap_platform_ring0(void)
{
	return ring0;
}

static u64 *reg(u32 msr)
{
	for (unsigned i = 0; i < reg_count; i++) {
		if (regs[i].msr == msr)
			return &regs[i].value;
	}
	return NULL;
}

static bool refused(u32 msr)
{
	return ++accesses == refuse_at || !reg(msr);
}

int __wrap_platform_rdmsr(u32 msr, u64 *value)
{
	*value = 0;
	if (refused(msr))
		return -EIO;
	*value = *reg(msr);
	return 0;
}

int __wrap_platform_wrmsr(u32 msr, u64 value)
{
	if (refused(msr) || msr == refuses_writes)
		return -EIO;
	*reg(msr) = value;
	return 0;
}

static void machine_with(const u32 *msrs, unsigned n)
{
	reg_count = n;
	accesses = refuse_at = refuses_writes = 0;
	for (unsigned i = 0; i < n; i++) {
		regs[i].msr = msrs[i];
		regs[i].value = 0x1000 + i; /* stopped, and not to be lost */
	}
}

static void assert_given_back(void)
{
	for (unsigned i = 0; i < reg_count; i++)
		assert_int_equal(regs[i].value, 0x1000 + i);
}

/* -------------------------------------------------------------------- processors */

static struct cpuid_regs leaf_a, leaf_81, leaf_822;

static void fake_cpuid(const struct cpu_source *src, u32 leaf, u32 sub, struct cpuid_regs *out)
{
	(void)src;
	(void)sub;
	*out = (struct cpuid_regs){0};
	if (!leaf)
		out->eax = 0x16;
	else if (leaf == 0x80000000)
		out->eax = 0x80000022;
	else if (leaf == 0x0a)
		*out = leaf_a;
	else if (leaf == 0x80000001)
		*out = leaf_81;
	else if (leaf == 0x80000022)
		*out = leaf_822;
}

static const struct cpu_source source = {.cpuid = fake_cpuid};
static const u32 intel[] = {0x186, 0x187, 0xc1, 0xc2, 0x38f};
static const u32 amd[] = {0xc0010200, 0xc0010201, 0xc0010202, 0xc0010203, 0xc0000301};

static struct pmu decided(enum cpu_vendor vendor, u32 family)
{
	struct machine m = {.vendor = vendor, .family = family};
	struct pmu p;

	pmu_decide(&p, &m, &source);
	return p;
}

static void what_is_there_decides(void **state)
{
	struct pmu p;

	(void)state;
	leaf_a = (struct cpuid_regs){.eax = 0x07300805}; /* version 5, 8 counters of 48 bits, 7 events */
	p = decided(VENDOR_INTEL, 6);
	assert_null(p.missing);
	assert_int_equal(p.control, 0x186);
	assert_int_equal(p.counter, 0xc1);
	assert_int_equal(p.global, 0x38f);
	assert_int_equal(p.event[PMU_FETCHED], 0x4f2e);
	assert_int_equal(p.event[PMU_FROM_MEMORY], 0x412e);
	assert_true(p.mask == (1ull << 48) - 1);
	leaf_a.eax = 0x07280201; /* version 1 has no global register */
	assert_int_equal(decided(VENDOR_INTEL, 6).global, 0);
	/* A set bit says that the event is missing; a short vector, that it is not enumerated. */
	for (u32 lacks = 8; lacks <= 16; lacks *= 2) {
		leaf_a.ebx = lacks;
		assert_non_null(decided(VENDOR_INTEL, 6).missing);
	}
	leaf_a = (struct cpuid_regs){.eax = 0x04300805};
	assert_non_null(decided(VENDOR_INTEL, 6).missing);
	leaf_a = (struct cpuid_regs){.eax = 0x07300105}; /* one counter */
	assert_non_null(decided(VENDOR_INTEL, 6).missing);
	leaf_a = (struct cpuid_regs){0}; /* QEMU's TCG */
	assert_non_null(strstr(decided(VENDOR_INTEL, 6).missing, "0Ah"));

	leaf_81.ecx = 1u << 23;
	assert_non_null(decided(VENDOR_AMD, 0x15).missing);
	assert_int_equal(decided(VENDOR_HYGON, 0x18).event[PMU_FETCHED], 0x5a43);
	assert_int_equal(decided(VENDOR_AMD, 0x19).event[PMU_FETCHED], 0x5e43);
	assert_int_equal(decided(VENDOR_AMD, 0x19).global, 0);
	leaf_822.eax = 1;
	assert_int_equal(decided(VENDOR_AMD, 0x1a).global, 0xc0000301);
	leaf_81.ecx = 0;
	assert_non_null(decided(VENDOR_AMD, 0x17).missing);
	assert_non_null(decided(VENDOR_OTHER, 6).missing);
	ring0 = false;
	assert_non_null(strstr(decided(VENDOR_INTEL, 6).missing, "process"));
	ring0 = true;
}

static void count_on(const struct pmu *p, const u32 *msrs)
{
	struct pmu_saved saved;
	u64 counted[PMU_EVENTS];
	u64 enable = (1u << 22) | (1u << 17) | (1u << 16);

	machine_with(msrs, 5);
	assert_int_equal(pmu_begin(p, &saved), 0);
	for (unsigned i = 0; i < PMU_EVENTS; i++) {
		assert_int_equal(*reg(p->control + i * p->step), enable | p->event[i]);
		assert_int_equal(*reg(p->counter + i * p->step), 0);
	}
	assert_int_equal(*reg(p->global), 0x1004 | 3);
	*reg(p->counter) = 7 | ~p->mask;
	*reg(p->counter + p->step) = 5;
	pmu_end(p, &saved, counted);
	assert_int_equal(counted[0], 7);
	assert_int_equal(counted[1], 5);
	assert_given_back();
	/* Whichever access raises #GP: an error, and nothing stays changed. */
	for (unsigned at = 1;; at++) {
		machine_with(msrs, 5);
		refuse_at = at;
		if (!pmu_begin(p, &saved))
			break;
		assert_given_back();
		assert_true(at < 32);
	}
	/* A hypervisor that shows registers and takes no write. */
	for (unsigned i = 0; i < 5; i++) {
		machine_with(msrs, 5);
		refuses_writes = msrs[i];
		assert_int_equal(pmu_begin(p, &saved), -EIO);
		assert_given_back();
	}
}

static void registers_are_given_back(void **state)
{
	struct pmu p;

	(void)state;
	leaf_a = (struct cpuid_regs){.eax = 0x07300805};
	p = decided(VENDOR_INTEL, 6);
	count_on(&p, intel);
	leaf_81.ecx = 1u << 23;
	leaf_822.eax = 1;
	p = decided(VENDOR_AMD, 0x19);
	count_on(&p, amd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_decides),
		cmocka_unit_test(registers_are_given_back),
	};

	return cmocka_run_group_tests_name("pmu", tests, NULL, NULL);
}
