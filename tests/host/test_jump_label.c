/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The breakpoint protocol, as the recorded order of its writes and serialisations: neither luck nor
 * an emulator would show a missing one. And the moments at which a key must refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "host.h"
#include "../../src/alt/jump_label.h"
#include "../../src/alt/text-patching.h"
#include "../../src/platform.h"
#include "../../src/trap/ptrace.h"

/* -------------------------------------------------------------------- recording */

static u8 text[64];
static char record[512];
static int sync_result;
static void (*in_sync)(void);

static void note(const char *what)
{
	strcat(record, what);
	strcat(record, " ");
}

static int record_write(u8 *addr, const u8 *bytes, size_t len)
{
	char word[40];
	int n = snprintf(word, sizeof(word), "%td:", addr - text);

	for (size_t i = 0; i < len; i++)
		n += snprintf(word + n, sizeof(word) - (size_t)n, "%02x", bytes[i]);
	note(word);
	memcpy(addr, bytes, len);
	return 0;
}

static int record_sync(void)
{
	note("sync");
	if (in_sync)
		in_sync();
	return sync_result;
}

static const struct poke_ops recording = {record_write, record_sync, NULL};

static void start_record(void)
{
	memset(text, 0xf4, sizeof(text));
	*record = 0;
	sync_result = 0;
	in_sync = NULL;
}

static const struct poke two[] = {
	{text + 8, {0xe9, 0x10, 0x00, 0x00, 0x00}},
	{text + 40, {0x0f, 0x1f, 0x44, 0x00, 0x00}},
};

static void order_of_steps(void **state)
{
	start_record();
	assert_int_equal(text_poke_bp_batch(two, 2, &recording), 0);
	assert_string_equal(record, "8:cc 40:cc sync "
				    "9:10000000 41:1f440000 sync "
				    "8:e9 40:0f sync ");
	assert_memory_equal(text + 8, two[0].text, POKE_LEN);
	assert_memory_equal(text + 40, two[1].text, POKE_LEN);
}

/* A processor that does not answer is an error, and no breakpoint stays behind. */
static void silent_processor(void **state)
{
	start_record();
	sync_result = -ETIMEDOUT;
	assert_int_equal(text_poke_bp_batch(two, 2, &recording), -ETIMEDOUT);
	assert_memory_equal(text + 8, two[0].text, POKE_LEN);
	assert_memory_equal(text + 40, two[1].text, POKE_LEN);
}

static void too_many(void **state)
{
	start_record();
	assert_int_equal(text_poke_bp_batch(two, POKE_MAX + 1, &recording), -E2BIG);
	assert_string_equal(record, "");
}

/* -------------------------------------------------------------------- who meets a breakpoint */

static u64 continue_at(unsigned offset)
{
	struct pt_regs regs = {.ip = (u64)text + offset + 1};

	return poke_int3_handler(&regs) ? regs.ip - (u64)text : ~0ull;
}

static unsigned met;

static void meet_both(void)
{
	met++;
	assert_int_equal(continue_at(8), 8 + 5 + 0x10);
	assert_int_equal(continue_at(40), 45);
}

static void breakpoint_while_open(void **state)
{
	u64 hits = poke_int3_hits();

	start_record();
	met = 0;
	in_sync = meet_both;
	assert_int_equal(text_poke_bp_batch(two, 2, &recording), 0);
	assert_int_equal(met, 3);
	assert_int_equal(poke_int3_hits() - hits, 6);
}

static int nested_result;

static void nest(void)
{
	nested_result = text_poke_bp_batch(two, 1, &recording);
	in_sync = NULL;
}

static void one_batch_at_a_time(void **state)
{
	start_record();
	in_sync = nest;
	assert_int_equal(text_poke_bp_batch(two, 2, &recording), 0);
	assert_int_equal(nested_result, -EBUSY);
}

/* The batch is over: continue as what stands there now; a breakpoint of somebody else is not ours,
 * nor are bytes that are neither of the two kinds. */
static void breakpoint_too_late(void **state)
{
	u64 late = poke_int3_late();

	start_record();
	memcpy(text + 8, "\x0f\x1f\x44\x00\x00", 5);
	assert_int_equal(continue_at(8), 13);
	memcpy(text + 8, "\xe9\x10\x00\x00\x00", 5);
	assert_int_equal(continue_at(8), 13 + 16);
	assert_int_equal(poke_int3_late() - late, 2);
	text[8] = 0xcc;
	assert_int_equal(continue_at(8), ~0ull);
	text[8] = 0x90;
	assert_int_equal(continue_at(8), ~0ull);
}

/* -------------------------------------------------------------------- keys */

static DEFINE_STATIC_KEY_FALSE(key);

static noinline bool on(void)
{
	return static_branch_unlikely(&key);
}

static const struct jump_entry *entry_of_key(void)
{
	for (const struct jump_entry *e = __start___jump_table; e < __stop___jump_table; e++) {
		if ((((u64)&e->key + (u64)e->key) & ~1ull) == (u64)&key.key)
			return e;
	}
	return NULL;
}

static void set_byte(u8 *at, u8 value)
{
	assert_int_not_equal(platform_text_open(), TEXT_WAY_NONE);
	*at = value;
	platform_text_close();
}

/* In this order: a key before jump_label_init(), with a site that is not as built, and at last. */
static void when_to_refuse(void **state)
{
	const struct jump_entry *e = entry_of_key();
	u8 *code, was;

	assert_non_null(e);
	code = (u8 *)&e->code + e->code;
	was = code[2];
	assert_int_equal(static_branch_enable(&key), -EPERM);
	assert_false(on());
	assert_int_equal(static_key_count(&key.key), 0);

	set_byte(code + 2, was ^ 1);
	assert_int_equal(jump_label_init(), -EINVAL);
	assert_int_equal(static_branch_enable(&key), -EPERM);
	set_byte(code + 2, was);

	assert_int_equal(jump_label_init(), 0);
	assert_int_equal(static_branch_enable(&key), 0);
	assert_true(on());
	assert_int_equal(static_branch_enable(&key), 0);
	assert_int_equal(static_key_count(&key.key), 1);
	assert_int_equal(static_branch_disable(&key), 0);
	assert_false(on());

	/* Found corrupted at the flip: refused, the key keeps its state. */
	set_byte(code + 2, was ^ 1);
	assert_int_equal(static_branch_enable(&key), -EINVAL);
	assert_int_equal(static_key_count(&key.key), 0);
	set_byte(code + 2, was);
	assert_false(on());
}

static void flips_are_counted(void **state)
{
	u64 flips = static_key_flips();

	assert_int_equal(static_branch_inc(&key), 0);
	assert_int_equal(static_branch_inc(&key), 0);
	assert_int_equal(static_key_flips() - flips, 1);
	assert_int_equal(static_branch_dec(&key), 0);
	assert_int_equal(static_branch_dec(&key), 0);
	assert_int_equal(static_key_flips() - flips, 2);
	assert_int_equal(static_branch_dec(&key), -EINVAL);
	assert_true(static_key_sites(&key.key) >= 1);
}

static int start(void **state)
{
	host_quiet = true;
	return host_start(1, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_steps),	 cmocka_unit_test(silent_processor),
		cmocka_unit_test(too_many),		 cmocka_unit_test(breakpoint_while_open),
		cmocka_unit_test(one_batch_at_a_time), cmocka_unit_test(breakpoint_too_late),
		cmocka_unit_test(when_to_refuse),	 cmocka_unit_test(flips_are_counted),
	};

	return cmocka_run_group_tests_name("jump_label", tests, start, NULL);
}
