/* SPDX-License-Identifier: GPL-2.0-only */
/* The stream and its forms: what goes in comes out, whatever the text, and a log that was cut, mixed
 * with noise or damaged never makes a form that says more than the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../src/report/event.h"
#include "../../src/report/html.h"
#include "../../src/report/json.h"
#include "../../src/report/screen.h"
#include "../../src/report/stream.h"
#include "../../src/report/views.h"
#include "host.h"

static const char good[] =
	"KTAP version 1\n"
	"# mcspin {\"event\": \"run\", \"schema\": \"mcspin-results-1\", \"id\": \"20261201-000000\", "
	"\"version\": \"v\", \"options\": \"quick=1\", \"started\": \"2026-12-01T00:00:00Z\", \"budget_s\": 20}\n"
	"# mcspin {\"event\": \"machine\", \"vendor\": \"GenuineIntel\", \"brand\": \"A <b>&\\\"\\u0001\", "
	"\"cpus\": 2, \"hypervisor\": {\"present\": false, \"name\": \"none\", \"signature\": \"\"}, "
	"\"emulated\": false, \"tsc\": {\"hz\": 2000000000, \"skew\": 1}, \"fingerprint\": \"0123456789abcdef\"}\n"
	"# mcspin {\"event\": \"plan\", \"tests\": 3, \"benches\": 1}\n"
	"# mcspin {\"event\": \"site\", \"name\": \"stac\", \"address\": \"0x1\", \"choice\": \"stac\", "
	"\"because\": \"SMAP\", \"before\": \"909090\", \"after\": \"0f01cb\"}\n"
	"# mcspin {\"event\": \"test\", \"suite\": \"s\", \"name\": \"a\", \"result\": \"pass\", \"reason\": "
	"null, \"sentence\": \"is <so>\", \"checks\": 3, \"failed\": 0, \"ticks\": 2000000}\n"
	"    ok 1 s.a\n"
	"# mcspin {\"event\": \"test\", \"suite\": \"s\", \"name\": \"b\", \"result\": \"skip\", \"reason\": "
	"\"no <script>alert(1)</script> here\", \"sentence\": \"x\", \"checks\": 0, \"failed\": 0, \"ticks\": 5}\n"
	"# mcspin {\"event\": \"bench_start\", \"name\": \"copy_hot\"}\n"
	"# mcspin {\"event\": \"bench\", \"name\": \"copy_hot\", \"variant\": \"v1\", \"params\": {\"length\": "
	"64}, \"unit\": \"ticks\", \"samples\": 9, \"min\": 1.000, \"p50\": 2.500, \"p95\": 3.000, \"max\": "
	"4.000, \"ci_low\": 2.000, \"ci_high\": 3.000, \"noise\": 0.500, \"disturbed\": 0, "
	"\"bytes_per_tick\": 25.600}\n"
	"# mcspin {\"event\": \"bench\", \"name\": \"copy_hot\", \"variant\": \"v1\", \"params\": {\"length\": "
	"4096}, \"unit\": \"ticks\", \"samples\": 9, \"min\": 1.000, \"p50\": 64.000, \"p95\": 3.000, \"max\": "
	"4.000, \"ci_low\": 2.000, \"ci_high\": 3.000, \"noise\": 0.500, \"disturbed\": 0, "
	"\"bytes_per_tick\": 64.000}\n"
	"# mcspin {\"event\": \"finding\", \"name\": \"copies_per_call\", \"text\": \"x copies twice\", "
	"\"ratio\": 2.00, \"evidence\": [\"test:s.a\"]}\n";
static const char last[] =
	"# mcspin {\"event\": \"done\", \"id\": \"20261201-000000\", \"result\": \"pass\", \"seconds\": 1.500}\n";

static char text[1 << 16], form[1 << 20];
static struct sink sink;

/* Make a form of `log`; NUL-terminated in `form`. */
static int make(int (*view)(const char *, size_t, struct sink *), const char *log, size_t len)
{
	int err;

	sink_buffer(&sink, form, sizeof(form) - 1);
	err = view(log, len, &sink);
	assert_false(sink.overflow);
	form[sink.len] = 0;
	return err;
}

static int make_text(int (*view)(const char *, size_t, struct sink *), const char *a, const char *b)
{
	snprintf(text, sizeof(text), "%s%s", a, b);
	return make(view, text, strlen(text));
}

/* The last line streamed, parsed. */
static struct json last_event(void)
{
	static jsmntok_t tok[4096];
	struct json j = {.tok = tok, .room = 4096};
	size_t len, from;
	const char *log = event_log(&len);

	assert_true(len > 0 && log[len - 1] == '\n');
	for (from = len - 1; from && log[from - 1] != '\n'; from--)
		;
	assert_memory_equal(log + from, "# mcspin {", 10);
	assert_true(json_parse(&j, log + from + 9, len - from - 10));
	return j;
}

static void strings_survive(void **state)
{
	struct json j;
	char back[200];

	(void)state;
	event_begin("warn");
	event_str("text", "tab\t quote\" back\\slash \x01 \x7f newline\n \xc3\xa9 \xff\xc0\xaf end");
	event_str("overlong", "\xe0\x80\xaf");
	event_str("surrogate", "\xed\xa0\x80");
	event_str("none", NULL);
	event_s64("low", INT64_MIN);
	event_u64("high", UINT64_MAX);
	event_fixed("ratio", -20001, 4);
	event_end();
	j = last_event();
	json_text(&j, json_get(&j, 0, "text"), back, sizeof(back));
	assert_string_equal(back, "tab\t quote\" back\\slash \x01 \x7f newline\n \xc3\xa9 "
				  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd end");
	json_text(&j, json_get(&j, 0, "overlong"), back, sizeof(back));
	assert_string_equal(back, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	json_text(&j, json_get(&j, 0, "surrogate"), back, sizeof(back));
	assert_string_equal(back, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	assert_true(json_is_null(&j, json_get(&j, 0, "none")));
	assert_true(json_is(&j, json_get(&j, 0, "low"), "-9223372036854775808"));
	assert_true(json_is(&j, json_get(&j, 0, "high"), "18446744073709551615"));
	assert_true(json_is(&j, json_get(&j, 0, "ratio"), "-2.0001"));
}

static void too_long_is_said(void **state)
{
	static char huge[EVENT_MAX * 2];
	struct json j;

	(void)state;
	memset(huge, 'x', sizeof(huge) - 1);
	event_begin("site");
	event_str("name", huge);
	event_end();
	j = last_event();
	assert_true(json_is(&j, json_get(&j, 0, "event"), "warn"));
	json_text(&j, json_get(&j, 0, "text"), huge, sizeof(huge));
	assert_non_null(strstr(huge, "site"));
}

static void numbers(void **state)
{
	static const struct {
		const char *text;
		unsigned decimals;
		bool ok;
		s64 value;
	} cases[] = {
		{"{\"n\": 1}", 3, true, 1000},	   {"{\"n\": -1.25}", 1, true, -12},
		{"{\"n\": 0.001}", 3, true, 1},	   {"{\"n\": 1e3}", 0, false, 0},
		{"{\"n\": \"1\"}", 0, false, 0},   {"{\"n\": null}", 0, false, 0},
		{"{\"n\": 99999999999999999999}", 0, false, 0},
		{"{\"n\": 9223372036854775807}", 0, true, INT64_MAX},
		{"{\"n\": 9223372036854775807}", 1, false, 0},
		{"{\"n\": 7.}", 2, true, 700},
	};
	jsmntok_t tok[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct json j = {.tok = tok, .room = 8};
		s64 value = 0;

		assert_true(json_parse(&j, cases[i].text, strlen(cases[i].text)));
		assert_int_equal(json_fixed(&j, json_get(&j, 0, "n"), cases[i].decimals, &value),
				 cases[i].ok);
		if (cases[i].ok)
			assert_true(value == cases[i].value);
	}
}

static void logarithms(void **state)
{
	static const struct {
		u64 x;
		u32 log;
	} known[] = {{1, 0},	    {2, 1000},	   {3, 1584},	     {10, 3321},
		     {1000, 9965},  {1u << 25, 25000}, {1000000000, 29897}, {1ull << 63, 63000}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_in_range(log2_milli(known[i].x), known[i].log, known[i].log + 1);
}

/* -------------------------------------------------------------------- forms */

static struct json results(const char *a, const char *b)
{
	struct json j;

	assert_int_equal(make_text(view_results_json, a, b), 0);
	assert_true(json_parse_alloc(&j, form, sink.len));
	return j;
}

static bool run_field(const struct json *j, const char *key, const char *want)
{
	return json_is(j, json_get(j, json_get(j, 0, "run"), key), want);
}

static void whole_run(void **state)
{
	struct json j = results(good, last);
	int totals = json_get(&j, json_get(&j, 0, "run"), "totals");

	(void)state;
	assert_true(run_field(&j, "result", "pass"));
	assert_true(run_field(&j, "seconds", "1.500"));
	assert_true(json_is(&j, json_get(&j, totals, "pass"), "1"));
	assert_true(json_is(&j, json_get(&j, totals, "skip"), "1"));
	json_free(&j);
}

static void cut_off_is_an_error(void **state)
{
	struct json j = results(good, "# mcspin {\"event\": \"done\", \"result\": \"pa");

	(void)state;
	assert_true(run_field(&j, "result", "error"));
	assert_true(run_field(&j, "finished", "false"));
	json_free(&j);
	assert_int_equal(make_text(view_junit_xml, good, ""), 0);
	assert_non_null(strstr(form, "never said that it was done"));
	assert_int_equal(make_text(view_report_html, good, ""), 0);
	assert_non_null(strstr(form, "<h1><b>Not finished</b>"));
}

static void crash_is_an_error(void **state)
{
	static const char crash[] = "# mcspin {\"event\": \"crash\", \"why\": \"page fault\"}\n"
				    "# mcspin {\"event\": \"test\", \"suite\": \"s\", \"name\": \"f\", "
				    "\"result\": \"fail\", \"reason\": \"r\", \"sentence\": \"x\"}\n";
	struct json j;

	(void)state;
	snprintf(text, sizeof(text), "%s%s%s", good, crash, last);
	assert_int_equal(make(view_results_json, text, strlen(text)), 0);
	assert_true(json_parse_alloc(&j, form, sink.len));
	assert_true(run_field(&j, "result", "error"));
	json_free(&j);
	assert_int_equal(make(view_report_html, text, strlen(text)), 0);
	assert_non_null(strstr(form, "Crashed"));
	assert_int_equal(make(view_junit_xml, text, strlen(text)), 0);
	assert_non_null(strstr(form, "the run crashed"));
}

static void no_run_is_refused(void **state)
{
	(void)state;
	assert_int_equal(make_text(view_results_json, "", ""), -EINVAL);
	assert_int_equal(make_text(view_junit_xml, "boot noise\n", last), -EINVAL);
	assert_int_equal(make_text(view_report_html, "# mcspin {\n", ""), -EINVAL);
}

/* Carriage returns, firmware's escapes in front of a line, another run before this one. */
static void serial_noise(void **state)
{
	static char clean[sizeof(form)], noisy[sizeof(text) * 2];
	size_t at = 0;

	(void)state;
	assert_int_equal(make_text(view_results_json, good, last), 0);
	strcpy(clean, form);
	at += snprintf(noisy, sizeof(noisy), "%s", "BdsDxe: loading\r\n# mcspin {\"event\": \"run\", "
		       "\"id\": \"earlier\"}\r\n# mcspin {\"event\": \"test\", \"result\": \"fail\"}\r\n");
	for (const char *p = text; *p; p++) {
		if (p == text || p[-1] == '\n')
			at += sprintf(noisy + at, "\033[2J\033[01;01H");
		if (*p == '\n')
			noisy[at++] = '\r';
		noisy[at++] = *p;
	}
	assert_int_equal(make(view_results_json, noisy, at), 0);
	assert_string_equal(form, clean);
}

static void html_is_inert(void **state)
{
	const char *data;

	(void)state;
	assert_int_equal(make_text(view_report_html, good, last), 0);
	assert_null(strstr(form, "<script>"));
	assert_null(strstr(form, "http:"));
	assert_null(strstr(form, "https:"));
	assert_non_null(strstr(form, "no &lt;script&gt;alert(1)&lt;/script&gt; here"));
	assert_non_null(strstr(form, "A &lt;b&gt;&amp;&quot;"));
	data = strstr(form, "<script type=\"application/json\"");
	assert_non_null(data);
	data = strchr(data, '>') + 1;
	assert_ptr_equal(strchr(data, '<'), strstr(data, "</script>"));
}

/* Two reports can never carry the same table by accident. */
static void tables_bear_their_machine(void **state)
{
	unsigned tables = 0;

	(void)state;
	assert_int_equal(make_text(view_report_html, good, last), 0);
	for (const char *p = form; (p = strstr(p, "<table")); p++) {
		const char *caption = strstr(p, "<caption>"), *end = strstr(p, "</caption>");
		const char *id = strstr(p, "20261201-000000"), *mark = strstr(p, "0123456789abcdef");

		assert_true(caption && caption - p < 40 && end);
		assert_true(id > caption && id < end && mark > caption && mark < end);
		tables++;
	}
	assert_true(tables >= 5);
}

static void emulation_is_said_on_top(void **state)
{
	static char log[sizeof(text)];
	char *flag;

	(void)state;
	snprintf(log, sizeof(log), "%s%s", good, last);
	flag = strstr(log, "\"emulated\": false");
	memcpy(flag, "\"emulated\": true ", 17);
	assert_int_equal(make(view_results_json, log, strlen(log)), 0);
	assert_in_range(strstr(form, "EMULATION") - form, 1, 100);
	assert_int_equal(make(view_junit_xml, log, strlen(log)), 0);
	assert_in_range(strstr(form, "EMULATION") - form, 1, 100);
	assert_int_equal(make(view_report_html, log, strlen(log)), 0);
	assert_non_null(strstr(form, "<title>(emulation)"));
	assert_true(strstr(form, "<b>Emulation.</b>") < strstr(form, "<main>"));
	assert_int_equal(make(view_table, log, strlen(log)), 0);
	assert_memory_equal(form, "EMULATION", 9);
	/* Each value with its name, and the outcome last. */
	assert_non_null(strstr(form, "64.000        0.500        9  length=4096\n"));
	assert_non_null(strstr(form, "\npass: 1 tests passed, 0 failed, 1 skipped, 0 broke\n"));
}

/* Damage of any kind: a form is refused or whole, and results.json stays JSON. */
static void damaged_logs(void **state)
{
	static char log[sizeof(text)];
	size_t len;

	(void)state;
	srandom(3);
	for (unsigned round = 0; round < 3000; round++) {
		struct json j;

		len = snprintf(log, sizeof(log), "%s%s", good, last);
		for (unsigned i = random() % 6; i; i--)
			log[random() % len] = (char)random();
		len -= random() % 2 ? 0 : random() % len;
		if (!make(view_results_json, log, len)) {
			assert_true(json_parse_alloc(&j, form, sink.len));
			json_free(&j);
		}
		make(view_junit_xml, log, len);
		make(view_report_html, log, len);
		make(view_table, log, len);
	}
}

/* The greatest bar is full, one of half its value half as long; seconds are ticks over the clock. */
static void bars_and_seconds(void **state)
{
	static const char two[] =
		"# mcspin {\"event\": \"finding\", \"name\": \"copies_per_call\", \"text\": \"one\", "
		"\"ratio\": 1.00, \"evidence\": [\"test:x\"]}\n"
		"# mcspin {\"event\": \"finding\", \"name\": \"copies_per_call\", \"text\": \"two\", "
		"\"ratio\": 2.00, \"evidence\": [\"test:x\"]}\n";
	const char *bars;

	(void)state;
	snprintf(text, sizeof(text), "%s%s%s", good, two, last);
	assert_int_equal(make(view_report_html, text, strlen(text)), 0);
	bars = strstr(form, "How often one call copies");
	assert_non_null(bars);
	bars = strstr(bars, " width=\"50.00%\"");
	assert_non_null(bars);
	assert_non_null(strstr(bars, " width=\"100.00%\""));
	assert_int_equal(make_text(view_junit_xml, good, last), 0);
	assert_non_null(strstr(form, "name=\"a\" time=\"0.001\"")); /* 2,000,000 at 2 GHz */
}

/* -------------------------------------------------------------------- the screen */

/* One of each kind. */
static void screen_counts(void **state)
{
	static const char *const words[] = {"pass", "pass", "fail", "skip", "skip", "skip", "error",
					    "error", "error", "error"};
	char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1], event[200];
	struct screen s;

	(void)state;
	screen_init(&s);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		snprintf(event, sizeof(event), "# mcspin {\"event\": \"test\", \"suite\": \"s\", \"name\": "
			 "\"n\", \"result\": \"%s\", \"reason\": null}\n", words[i]);
		screen_feed(&s, event, strlen(event));
	}
	screen_draw(&s, 1, rows);
	for (unsigned r = 0; r < SCREEN_ROWS; r++) {
		if (strstr(rows[r], "2 passed, 1 failed, 3 skipped, 4 broken"))
			return;
	}
	fail_msg("no row counts the tests");
}


static void rows_are_whole(char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1])
{
	for (unsigned i = 0; i < SCREEN_ROWS; i++) {
		assert_int_equal(strlen(rows[i]), SCREEN_COLUMNS);
		for (unsigned k = 0; k < SCREEN_COLUMNS; k++)
			assert_in_range(rows[i][k], ' ', '~');
	}
}

static unsigned percent_shown(char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1])
{
	for (unsigned i = 0; i < SCREEN_ROWS; i++) {
		char *p = strchr(rows[i], ']');

		if (p)
			return atoi(p + 1);
	}
	return 999;
}

static bool shown(char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1], const char *what)
{
	for (unsigned i = 0; i < SCREEN_ROWS; i++) {
		if (strstr(rows[i], what))
			return true;
	}
	return false;
}

static void screen_follows(void **state)
{
	char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1];
	unsigned before = 0, elapsed = 0;
	struct screen s;

	(void)state;
	screen_init(&s);
	screen_draw(&s, 0, rows);
	rows_are_whole(rows);
	snprintf(text, sizeof(text), "%s%s", good, last);
	for (char *p = text; *p; p = strchr(p, '\n') + 1) {
		screen_feed(&s, p, strchr(p, '\n') + 1 - p);
		screen_draw(&s, elapsed++, rows);
		rows_are_whole(rows);
		assert_in_range(percent_shown(rows), before, 100);
		before = percent_shown(rows);
		assert_true(before < 100 || *s.result);
	}
	assert_int_equal(before, 100);
	assert_true(shown(rows, " PASS"));
	assert_true(shown(rows, "1 passed, 0 failed, 1 skipped"));
	assert_true(shown(rows, "2.00 ==========="));
	assert_true(shown(rows, "20261201-000000\\report.html"));
}

/* However much is found, the exhibits stay and each text ends at a word. */
static void screen_keeps_the_exhibits(void **state)
{
	char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1], event[300];
	struct screen s;

	(void)state;
	screen_init(&s);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(event, sizeof(event),
			 "# mcspin {\"event\": \"finding\", \"name\": \"%s\", \"text\": \"finding %u of a "
			 "sentence with so many words that no row of a screen holds all\", \"ratio\": %s}\n",
			 i == 20 ? "spin_argument" : i == 21 ? "regression" : "other", i,
			 i % 7 == 3 ? "null" : "1.5");
		screen_feed(&s, event, strlen(event));
	}
	screen_draw(&s, 1, rows);
	rows_are_whole(rows);
	assert_true(shown(rows, "finding 20"));
	assert_true(shown(rows, "finding 21"));
	assert_true(shown(rows, " Against the baseline "));
	assert_true(shown(rows, " The argument that nobody needed "));
	assert_false(shown(rows, "The copy that ran twice"));
	assert_true(shown(rows, "1.50 =========== finding 0 "));
	assert_false(shown(rows, "finding 3 "));
	assert_true(shown(rows, "finding 0 of a sentence with so many words that no row of.."));
}

static void screen_tells_where_reports_are(void **state)
{
	static const char none[] = "# mcspin {\"event\": \"warn\", \"text\": \"no volume to write\"}\n";
	char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1];
	struct screen s;

	(void)state;
	screen_init(&s);
	screen_feed(&s, none, strlen(none));
	screen_feed(&s, last, strlen(last));
	screen_draw(&s, 1, rows);
	assert_true(shown(rows, "serial line only"));
	assert_false(shown(rows, "report.html"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_survive),
		cmocka_unit_test(too_long_is_said),
		cmocka_unit_test(numbers),
		cmocka_unit_test(logarithms),
		cmocka_unit_test(whole_run),
		cmocka_unit_test(cut_off_is_an_error),
		cmocka_unit_test(crash_is_an_error), cmocka_unit_test(bars_and_seconds),
		cmocka_unit_test(screen_counts),
		cmocka_unit_test(no_run_is_refused),
		cmocka_unit_test(serial_noise),
		cmocka_unit_test(html_is_inert),
		cmocka_unit_test(tables_bear_their_machine),
		cmocka_unit_test(emulation_is_said_on_top),
		cmocka_unit_test(damaged_logs),
		cmocka_unit_test(screen_follows),
		cmocka_unit_test(screen_keeps_the_exhibits),
		cmocka_unit_test(screen_tells_where_reports_are),
	};

	host_quiet = true;
	if (host_start(1, NULL))
		return 1;
	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
