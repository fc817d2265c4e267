/* SPDX-License-Identifier: GPL-2.0-only */
/* Who gets the fragile key: Linux's PCI quirks, on a made-up bus with one device behind function 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "../../src/copy/copy_mc.h"
#include "../../src/cpu/features.h"
#include "../../src/platform.h"
#include "../../src/run/options.h"
#include "host.h"

#define BUS 0x3f
#define DEV 30
#define FN  3

static u32 id, capid0, capid5;

int __wrap_platform_pci_read32(u32 segment, u32 bus, u32 dev, u32 fn, u32 offset, u32 *value);
int __wrap_platform_pci_read32(u32 segment, u32 bus, u32 dev, u32 fn, u32 offset, u32 *value)
{
	assert_int_equal(segment, 0);
	*value = ~0u;
	if (bus == BUS && dev == DEV && !fn && !offset)
		*value = 0x12348086; /* or the other functions are not looked at */
	if (bus != BUS || dev != DEV || fn != FN)
		return 0;
	*value = offset == 0x84 ? capid0 : offset == 0x98 ? capid5 : offset ? 0 : id;
	return 0;
}

static bool decides(void)
{
	bool on;

	copy_mc_decide_fragile();
	on = static_key_count(&copy_mc_fragile_key.key) > 0;
	if (on)
		assert_int_equal(static_branch_disable(&copy_mc_fragile_key), 0);
	return on;
}

static void capabilities(void **state)
{
	static const struct {
		u32 device, capid0, capid5;
		bool on;
	} rows[] = {
		{0x0ec3, 0x10, 0, true}, {0x0ec3, ~0x10u, ~0u, false},
		{0x2fc0, 0x10, 0, true}, {0x2fc0, 0, 0, false},
		{0x6fc0, 0x10, 0, true}, {0x6fc0, 0x20, 0, false},
		{0x2083, 0xc0, 0, true}, {0x2083, 0x40, 0, false}, {0x2083, 0x80, 0, false},
		{0x2083, 0, 0x20, true}, {0x2083, 0, 0x100, true}, {0x2083, 0, 0x10, false},
		{0x2083, 0, 0x200, false},
		{0x2084, ~0u, ~0u, false},
	};

	(void)state;
	boot_cpu_data.vendor = VENDOR_INTEL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		id = rows[i].device << 16 | 0x8086;
		capid0 = rows[i].capid0;
		capid5 = rows[i].capid5;
		if (decides() != rows[i].on)
			fail_msg("device %x with %x, %x", rows[i].device, capid0, capid5);
	}
}

static void only_intel(void **state)
{
	(void)state;
	id = 0x20838086;
	capid0 = 0xc0;
	boot_cpu_data.vendor = VENDOR_HYGON;
	assert_false(decides());
	options.fragile = OPT_ON;
	assert_true(decides());
	boot_cpu_data.vendor = VENDOR_INTEL;
	options.fragile = OPT_OFF;
	assert_false(decides());
	options.fragile = OPT_AUTO;
	id = 0x20831022; /* another maker's device of that number */
	assert_false(decides());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capabilities),
		cmocka_unit_test(only_intel),
	};

	options_init(&options);
	host_quiet = true;
	if (host_start(1, NULL) || jump_label_init())
		return 1;
	return cmocka_run_group_tests_name("fragile", tests, NULL, NULL);
}
