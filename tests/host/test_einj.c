/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The EINJ interpreter against made tables: a sound one with a platform of memory behind it, and
 * damaged ones, which must be refused or at worst reach only registers that the table names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../src/mce/einj.h"

#define BASE  0x10000u /* of the platform's registers, offsets below */
#define TYPES 0x00
#define BUSY  0x08
#define STAT  0x10
#define EXEC  0x18
#define STATE 0x20
#define PLACE 0x40
#define PORT  0xb2

static struct {
	struct einj_io io;
	uint8_t regs[256];
	uint8_t port;
	unsigned busy_for, executed, strays, status;
} platform;

static int fake_read(const struct einj_io *io, u8 space, u64 address, unsigned bytes, u64 *value)
{
	(void)io;
	*value = 0;
	if (space == 1) {
		*value = platform.port;
		return 0;
	}
	if (address < BASE || address + bytes > BASE + sizeof(platform.regs)) {
		platform.strays++;
		return -EFAULT;
	}
	if (address == BASE + BUSY)
		platform.regs[BUSY] = platform.busy_for ? (platform.busy_for--, 1) : 0;
	memcpy(value, platform.regs + (address - BASE), bytes);
	return 0;
}

static int fake_write(const struct einj_io *io, u8 space, u64 address, unsigned bytes, u64 value)
{
	(void)io;
	if (space == 1) {
		platform.port = (uint8_t)value;
		platform.executed++;
		platform.regs[STAT] = (uint8_t)(platform.status << 1);
		return 0;
	}
	if (address < BASE || address + bytes > BASE + sizeof(platform.regs)) {
		platform.strays++;
		return -EFAULT;
	}
	memcpy(platform.regs + (address - BASE), &value, bytes);
	return 0;
}

#define MEM(offset, width)  {0, width, 0, 0, BASE + (offset)}
#define IO_PORT(port)	    {1, 8, 0, 1, port}

static const struct einj_entry sound[] = {
	{EINJ_BEGIN, 3, 0, 0, MEM(STATE, 8), 0x5, ~0ull},
	{EINJ_GET_ERROR_TYPE, 0, 0, 0, MEM(TYPES, 32), 0, 0xffffffff},
	{EINJ_SET_ERROR_TYPE_WITH_ADDRESS, 2, 0, 0, {0, 32, 0, 3, BASE + PLACE}, 0, 0xffffffff},
	{EINJ_EXECUTE, 4, 0, 0, {0}, 0, 0},
	{EINJ_EXECUTE, 3, 0, 0, IO_PORT(PORT), 0x9a, 0xff},
	{EINJ_CHECK_BUSY, 1, 0, 0, MEM(BUSY, 8), 1, 1},
	{EINJ_GET_STATUS, 0, 0, 0, MEM(STAT, 32), 0, 0x1fe},
	{EINJ_END, 3, 1, 0, MEM(STATE, 8), 0x2, 0x3}, /* bit 2 is preserved */
};

static uint8_t table[48 + sizeof(sound)];
static char why[200];

static void make_table(void)
{
	uint32_t len = sizeof(table), count = ARRAY_SIZE(sound);

	memset(&platform, 0, sizeof(platform));
	platform.io = (struct einj_io){fake_read, fake_write};
	platform.regs[TYPES] = 0x38;
	platform.busy_for = 3;
	memset(table, 0, 48);
	memcpy(table, "EINJ", 4);
	memcpy(table + 4, &len, 4);
	memcpy(table + 44, &count, 4);
	memcpy(table + 48, sound, sizeof(sound));
}

static int open_table(struct einj *e)
{
	why[0] = 0;
	return einj_open(e, table, sizeof(table), &platform.io, why, sizeof(why));
}

static void poisons(void **state)
{
	struct einj_address a;
	struct einj e;

	(void)state;
	make_table();
	assert_int_equal(open_table(&e), 0);
	assert_int_equal(einj_can_poison(&e, why, sizeof(why)), 0);
	assert_int_equal(einj_poison(&e, 0x12345040, why, sizeof(why)), 0);
	memcpy(&a, platform.regs + PLACE, sizeof(a));
	assert_int_equal(a.type, EINJ_MEMORY_UNCORRECTABLE);
	assert_int_equal(a.flags, EINJ_FLAG_MEMORY);
	assert_int_equal(a.address, 0x12345040);
	assert_int_equal(a.mask, EINJ_PAGE_MASK);
	assert_int_equal(platform.port, 0x9a);
	assert_int_equal(platform.executed, 1);
	assert_int_equal(platform.busy_for, 0);
	assert_int_equal(platform.regs[STATE], 0x6); /* 4 of the 5 was kept, 2 written */
	assert_int_equal(platform.strays, 0);
}

/* Widths, masks, offsets. */
static void widths(void **state)
{
	struct einj_entry n = {EINJ_SET_ERROR_TYPE, 2, 1, 0, {0, 16, 4, 2, BASE + 0x60}, 0, 0xff};
	struct einj e = {&n, 1, &platform.io};
	uint16_t reg = 0xabcd;
	u64 value = 0x123;

	(void)state;
	make_table();
	memcpy(platform.regs + 0x60, &reg, 2);
	assert_int_equal(einj_run(&e, EINJ_SET_ERROR_TYPE, &value), 0);
	memcpy(&reg, platform.regs + 0x60, 2);
	assert_int_equal(reg, 0xa23d); /* 0x23 into bits 11:4, the rest as it was */
	n.flags = 0;
	assert_int_equal(einj_run(&e, EINJ_SET_ERROR_TYPE, &value), 0);
	memcpy(&reg, platform.regs + 0x60, 2);
	assert_int_equal(reg, 0x0230);
	n.instruction = 0;
	assert_int_equal(einj_run(&e, EINJ_SET_ERROR_TYPE, &value), 0);
	assert_int_equal(value, 0x23);
	n.instruction = 1;
	n.value = 0x23;
	assert_int_equal(einj_run(&e, EINJ_SET_ERROR_TYPE, &value), 0);
	assert_int_equal(value, 1);
}

static void platform_says_no(void **state)
{
	struct einj e;

	(void)state;
	make_table();
	platform.regs[TYPES] = 0x08;
	assert_int_equal(open_table(&e), 0);
	assert_int_equal(einj_can_poison(&e, why, sizeof(why)), -EOPNOTSUPP);
	assert_non_null(strstr(why, "0x8"));
	assert_int_equal(platform.executed, 0);
	platform.regs[TYPES] = 0x10;
	platform.status = 1;
	assert_int_equal(einj_poison(&e, 0x1000, why, sizeof(why)), -EIO);
	assert_non_null(strstr(why, "status 1"));
	platform.status = 2;
	assert_int_equal(einj_poison(&e, 0x1000, why, sizeof(why)), -EIO);
	assert_non_null(strstr(why, "status 2"));
	platform.busy_for = ~0u;
	assert_int_equal(einj_poison(&e, 0x1000, why, sizeof(why)), -ETIMEDOUT);
	assert_non_null(strstr(why, "busy"));
	assert_int_equal(platform.regs[STATE], 0x6); /* the operation was ended all the same */
}

static void refuses(void **state)
{
	struct einj_entry *n = (struct einj_entry *)(table + 48);
	uint32_t many = 9;
	struct einj e;

	(void)state;
#define REFUSED(words, change)                                                                     \
	do {                                                                                       \
		make_table();                                                                      \
		change;                                                                            \
		assert_int_equal(open_table(&e), -EINVAL);                                         \
		if (!strstr(why, words))                                                           \
			fail_msg("\"%s\" does not say \"%s\"", why, words);                        \
	} while (0)
	REFUSED("header", table[0] = 'X');
	REFUSED("header", table[4]++);
	REFUSED("more entries", memcpy(table + 44, &many, 4));
	REFUSED("no entry for action 0", n[0].action = 7);
	REFUSED("no entry for action 5", n[3].action = n[4].action = 0xff);
	REFUSED("instruction", n[1].instruction = 5);
	REFUSED("neither", n[1].reg.space = 2);
	REFUSED("without address", n[1].reg.address = 0);
	REFUSED("width", n[1].reg.bit_width = 24);
	REFUSED("width", n[1].reg.access = 5);
	REFUSED("wider", n[1].reg.access = 1);
	REFUSED("offset", n[1].reg.bit_offset = 32);
	REFUSED("port", n[4].reg.address = 0x10000);
	REFUSED("aligned", n[1].reg.address++);
	REFUSED("outside memory", n[2].reg.space = 1);
	assert_int_equal(einj_open(&e, table, 20, &platform.io, why, sizeof(why)), -EINVAL);
}

/* Each byte of the table at each of some values: never a crash, never more than the table says. */
static void damaged(void **state)
{
	static const uint8_t values[] = {0, 1, 2, 4, 0x40, 0x7f, 0x80, 0xff};
	struct einj e;

	(void)state;
	for (size_t at = 0; at < sizeof(table); at++) {
		for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
			make_table();
			table[at] = values[v];
			if (open_table(&e)) {
				assert_true(why[0]);
				assert_int_equal(platform.executed + platform.strays, 0);
				continue;
			}
			if (!einj_can_poison(&e, why, sizeof(why)) && platform.busy_for < 9)
				einj_poison(&e, 0x1000, why, sizeof(why));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poisons),  cmocka_unit_test(widths), cmocka_unit_test(platform_says_no),
		cmocka_unit_test(refuses), cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
