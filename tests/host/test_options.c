/* SPDX-License-Identifier: GPL-2.0-only */
/* Options: what is taken, and that each refusal names the place, the key and the value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "../../src/run/options.h"

static char why[200];

static int parse(struct options *o, const char *text)
{
	options_init(o);
	why[0] = 0;
	return options_parse(o, text, "command line", why, sizeof(why));
}

static void takes_words(void **state)
{
	struct options o;

	(void)state;
	assert_int_equal(parse(&o, " cpus=4 quick=1\r\n# note cpus=banana\nexit=qemu threshold=7% "
				   "seed=0x10 console=0x2f8 suite=copy_*,osq"),
			 0);
	assert_int_equal(o.cpus, 4);
	assert_true(o.quick);
	assert_int_equal(o.exit, EXIT_QEMU);
	assert_int_equal(o.threshold, 7);
	assert_int_equal(o.seed, 16);
	assert_string_equal(o.console, "0x2f8");
	assert_string_equal(o.suite, "copy_*,osq");
	assert_int_equal(o.icount, -1);
	assert_int_equal(o.hold, 60);
}

static void later_wins(void **state)
{
	struct options o;

	(void)state;
	assert_int_equal(parse(&o, "cpus=4"), 0);
	assert_int_equal(options_parse(&o, "cpus=2", "command line", why, sizeof(why)), 0);
	assert_int_equal(o.cpus, 2);
}

/* The report keeps the words, and says so where there were more than it has room for. */
static void words_for_the_report(void **state)
{
	static char text[1024];
	struct options o;

	(void)state;
	assert_int_equal(parse(&o, "cpus=4  quick=1"), 0);
	assert_string_equal(o.text, "cpus=4 quick=1");
	for (unsigned i = 0; i < 60; i++)
		strcat(text, "seed=123456 ");
	assert_int_equal(parse(&o, text), 0);
	assert_in_range(strlen(o.text), 200, sizeof(o.text) - 1);
	assert_string_equal(o.text + strlen(o.text) - 4, " ...");
}

/* What editors make of mcspin.cfg. */
static void files(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int cpus; /* -1: refused */
	} rows[] = {
		{"cpus=4", 6, 4},
		{"", 0, 0},
		{"\xef\xbb\xbf" "cpus=4\r\n", 11, 4},
		{"\xff\xfe" "c\0p\0u\0s\0=\0004\0", 14, -1},
		{"\xfe\xff\0c\0p\0u\0s\0=\0004", 14, -1},
		{"c\0p\0u\0s\0=\0004\0", 12, -1},
		{"\0c\0p\0u\0s\0=\0004", 12, -1},
		{"\0", 1, -1},
		{"cpus=4\0quick=1", 14, -1},
		{"\x7f" "ELF\2\1\1", 7, -1},
	};
	char bytes[40];
	struct options o;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		options_init(&o);
		memcpy(bytes, rows[i].bytes, rows[i].len);
		memset(bytes + rows[i].len, '9', sizeof(bytes) - rows[i].len);
		why[0] = 0;
		if (options_parse_file(&o, bytes, rows[i].len, "mcspin.cfg", why, sizeof(why))) {
			assert_int_equal(rows[i].cpus, -1);
			assert_non_null(strstr(why, "mcspin.cfg: "));
		} else {
			assert_int_equal(rows[i].cpus, o.cpus);
		}
	}
}

static void refuses(void **state)
{
	static const struct {
		const char *text, *key, *value;
	} bad[] = {
		{"cpus=banana", "cpus", "banana"},
		{"cpus=0", "cpus", "=0"},
		{"cpus=1025", "cpus", "1025"},
		{"cpus=", "cpus", "cpus="},
		{"cpus=99999999999999999999", "cpus", "9999"},
		{"quick=yes", "quick", "yes"},
		{"quick=2", "quick", "2"},
		{"exit=now", "exit", "now"},
		{"console=com9", "console", "com9"},
		{"console=0x10000", "console", "0x10000"},
		{"colour=red", "colour", "red"},
		{"quick", "key=value", "quick"},
		{"seed=0x", "seed", "0x"},
		{"dispatcher=best", "dispatcher", "best"},
	};
	struct options o;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_not_equal(parse(&o, bad[i].text), 0);
		assert_non_null(strstr(why, "command line"));
		assert_non_null(strstr(why, bad[i].key));
		assert_non_null(strstr(why, bad[i].value));
	}
}

static void globs(void **state)
{
	(void)state;
	assert_true(glob_list_match("", "anything"));
	assert_true(glob_list_match("copy_*", "copy_mc"));
	assert_true(glob_list_match("a,*mc", "copy_mc"));
	assert_true(glob_list_match("c?py_mc", "copy_mc"));
	assert_false(glob_list_match("copy", "copy_mc"));
	assert_false(glob_list_match("copy_mc?", "copy_mc"));
	assert_false(glob_list_match("x,y", "copy_mc"));
}

static unsigned lines;
static void count(const char *text)
{
	assert_true(strlen(text) < 80);
	lines++;
}

static void help_fits_a_screen(void **state)
{
	(void)state;
	options_help(count);
	assert_in_range(lines, 10, 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_words), cmocka_unit_test(later_wins),
		cmocka_unit_test(files), cmocka_unit_test(words_for_the_report),
		cmocka_unit_test(refuses),     cmocka_unit_test(globs),
		cmocka_unit_test(help_fits_a_screen),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
