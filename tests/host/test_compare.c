/* SPDX-License-Identifier: GPL-2.0-only */
/* Comparing with an earlier run: when it claims a change, and when it refuses to. Each case writes
 * a baseline, streams a run, and looks at the events that follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../src/report/compare.h"
#include "../../src/report/event.h"
#include "../../src/report/stream.h"
#include "../../src/report/views.h"
#include "../../src/run/options.h"
#include "host.h"

struct bench_value {
	const char *variant, *unit;
	s64 p50, noise;
	unsigned length; /* 0: 4096 */
};

struct made_run {
	const char *id, *brand, *fingerprint;
	bool emulated;
	s64 control; /* 0: none */
	struct bench_value values[6];
	s64 copies; /* of a counted finding, in 1/100; 0: none */
};

static const char *shared = ""; /* the variant that had a neighbour on its core */

static void emit_bench(const char *name, const struct bench_value *v)
{
	event_begin("bench");
	event_str("name", name);
	event_str("variant", v->variant);
	event_object("params");
	event_u64("length", v->length ? v->length : 4096);
	event_close();
	event_str("unit", v->unit);
	event_fixed("p50", v->p50, 3);
	event_fixed("noise", v->noise, 3);
	if (!strcmp(shared, v->variant))
		event_bool("shared_core", true);
	event_end();
}

static void emit_run(const struct made_run *r)
{
	struct bench_value control = {"chain", "ticks", r->control, 10, 0};
	static const char *const proof[] = {"test:copy_mc.copies_per_call", NULL};

	event_begin("run");
	event_str("schema", "mcspin-results-1");
	event_str("id", r->id);
	event_str("options", "");
	event_end();
	event_begin("machine");
	event_str("brand", r->brand);
	event_u64("cpus", 2);
	event_bool("emulated", r->emulated);
	event_str("fingerprint", r->fingerprint);
	event_end();
	if (r->control)
		emit_bench("control", &control);
	for (unsigned i = 0; i < ARRAY_SIZE(r->values) && r->values[i].variant; i++)
		emit_bench("time", &r->values[i]);
	if (r->copies)
		event_finding("copies_per_call", "copy_mc_to_user copies each byte", true, r->copies, 2,
			      proof);
}

static char path[] = "/tmp/mcspin-compare-XXXXXX";
static char form[1 << 18];

static void write_baseline(const char *bytes, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
}

static void make_baseline(const struct made_run *r)
{
	struct sink sink;
	size_t len;
	const char *log;

	emit_run(r);
	log = event_log(&len);
	sink_buffer(&sink, form, sizeof(form));
	assert_int_equal(view_results_json(log, len, &sink), 0);
	assert_false(sink.overflow);
	write_baseline(form, sink.len);
}

static struct stream s;

/* Compare; the stream stays open for questions. */
static void compare(const struct made_run *r, const char *machines)
{
	size_t len;
	const char *log;

	emit_run(r);
	snprintf(options.baseline, sizeof(options.baseline), "%s", path);
	snprintf(options.compare, sizeof(options.compare), "%s", machines);
	options.threshold = 5;
	compare_with_baseline();
	log = event_log(&len);
	assert_true(stream_open(&s, log, len));
}

static void verdict_says(const char *kind, const char *words)
{
	const struct json *j = stream_load(&s, stream_last(&s, "compare"));
	char text[400];

	assert_true(json_is(j, json_get(j, 0, "kind"), kind));
	json_text(j, json_get(j, 0, "verdict"), text, sizeof(text));
	if (!strstr(text, words))
		fail_msg("verdict: %s", text);
}

/* Findings of the comparison, and the text of the first. */
static unsigned findings(char *first, size_t len)
{
	const struct json *j;
	unsigned at = 0, n = 0;

	*first = 0;
	while ((j = stream_each(&s, "finding", &at))) {
		int name = json_get(j, 0, "name");

		if (!json_is(j, name, "regression") && !json_is(j, name, "improvement"))
			continue;
		if (!n++)
			json_text(j, json_get(j, 0, "text"), first, len);
	}
	return n;
}

static void row_is(unsigned index, const char *variant, const char *verdict)
{
	const struct json *j = NULL;
	unsigned at = 0;

	for (unsigned i = 0; i <= index; i++)
		j = stream_each(&s, "compare_row", &at);
	assert_non_null(j);
	if (!json_is(j, json_get(j, 0, "variant"), variant) ||
	    !json_is(j, json_get(j, 0, "verdict"), verdict))
		fail_msg("row %u: %.*s", index, (int)s.events[at - 1].len, s.events[at - 1].json);
}

#define BEFORE                                                                                     \
	{                                                                                          \
		"before", "cpu A", "aaaa", false, 100000,                                          \
		{                                                                                  \
			{"one", "ticks", 100000, 1000, 0},                                         \
			{"two", "ticks", 200000, 1000, 0},                                         \
			{"three", "ticks", 300000, 1000, 0},                                       \
			{"rate", "acquisitions_per_ms", 50000, 100, 0},                            \
			{"count", "instructions", 1000, 0, 0},                                     \
		},                                                                                 \
			100                                                                        \
	}

static struct made_run before = BEFORE, after;
static char text[400];

static void begin(void)
{
	make_baseline(&before);
	after = (struct made_run)BEFORE;
	after.id = "after";
	/* Two measurements never agree in every digit. */
	for (unsigned i = 0; i < 3; i++)
		after.values[i].p50 += 7;
}

static void end(void)
{
	stream_close(&s);
}

static void alike_finds_nothing(void **state)
{
	(void)state;
	begin();
	compare(&after, "");
	verdict_says("before-after", "none of 7 changed");
	assert_int_equal(findings(text, sizeof(text)), 0);
	end();
}

static void worse_is_named(void **state)
{
	(void)state;
	begin();
	after.values[1].p50 = 343000; /* +71.50 % */
	after.values[3].p50 = 40000;  /* a rate that falls: worse as well */
	compare(&after, "");
	verdict_says("before-after", "2 of 7 changed");
	verdict_says("before-after", "time two (length 4096): +71.50 %");
	assert_int_equal(findings(text, sizeof(text)), 2);
	assert_non_null(strstr(text, "time two (length 4096): +71.50 % against run before: worse"));
	row_is(0, "two", "worse");
	row_is(1, "rate", "worse");
	end();
}

static void better_is_said(void **state)
{
	(void)state;
	begin();
	after.values[0].p50 = 50000;
	after.copies = 200; /* counted: exact, one to two */
	compare(&after, "");
	row_is(0, "copy_mc_to_user", "worse");
	row_is(1, "one", "better");
	assert_int_equal(findings(text, sizeof(text)), 2);
	end();
}

static void noise_and_threshold_hold(void **state)
{
	(void)state;
	begin();
	after.values[0].p50 = 140000;
	after.values[0].noise = 40000; /* +40 %, 41 % noise */
	after.values[1].p50 = 209000;  /* +4.5 %, 1 % noise, below 5 % */
	compare(&after, "");
	assert_int_equal(findings(text, sizeof(text)), 0);
	row_is(0, "one", "within noise");
	row_is(1, "two", "below threshold");
	end();
}

/* The noise of the run before counts as well. */
static void noise_of_either_side(void **state)
{
	(void)state;
	before.values[0].noise = 40000;
	begin();
	after.values[0].p50 = 130000;
	compare(&after, "");
	assert_int_equal(findings(text, sizeof(text)), 0);
	row_is(0, "one", "within noise");
	before.values[0].noise = 1000;
	end();
}

/* A copy of another length is another measurement. */
static void parameters_tell_apart(void **state)
{
	(void)state;
	begin();
	after.values[1].p50 = 343000;
	after.values[1].length = 8192;
	compare(&after, "");
	verdict_says("before-after", "none of 6 changed");
	end();
}

static void moved_control_ends_it(void **state)
{
	(void)state;
	begin();
	after.values[1].p50 = 343000;
	after.control = 110000;
	compare(&after, "");
	verdict_says("before-after", "no verdict: the control bench");
	verdict_says("before-after", "+10.00 %");
	assert_int_equal(findings(text, sizeof(text)), 0);
	row_is(0, "two", "control moved, not judged");
	end();
}

static void no_control_no_verdict(void **state)
{
	(void)state;
	begin();
	after.control = 0;
	after.values[1].p50 = 343000;
	compare(&after, "");
	verdict_says("before-after", "no control bench");
	assert_int_equal(findings(text, sizeof(text)), 0);
	end();
}

static void other_machine_is_refused(void **state)
{
	(void)state;
	begin();
	after.fingerprint = "bbbb";
	after.brand = "cpu B";
	after.values[1].p50 = 343000;
	compare(&after, "");
	verdict_says("refused", "brand (cpu A, now cpu B)");
	assert_true(stream_find(&s, "compare_row", 0) < 0);
	assert_int_equal(findings(text, sizeof(text)), 0);
	end();
	compare(&after, "machines");
	verdict_says("machines", "Side by side only");
	row_is(0, "two", "another machine");
	assert_int_equal(findings(text, sizeof(text)), 0);
	end();
}

/* The slip that mcspin was born from: one machine's table in another's report. */
static void copied_table_is_seen(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 3; i++)
		after.values[i] = before.values[i];
	compare(&after, "");
	verdict_says("before-after", "to the last digit");
	end();
}

static void emulated_times_are_not_judged(void **state)
{
	(void)state;
	/* One emulated side is enough. */
	for (unsigned sides = 1; sides <= 3; sides++) {
		before.emulated = sides & 1;
		begin();
		before.emulated = false;
		after.emulated = sides & 2;
		after.values[1].p50 = 343000;
		after.values[4].p50 = 1500; /* instructions: counted, +50 % */
		compare(&after, "");
		assert_int_equal(findings(text, sizeof(text)), 1);
		assert_non_null(strstr(text, "time count (length 4096): +50.00 %"));
		row_is(0, "two", "emulated time, not judged");
		end();
	}
}

/* With somebody on the other thread of the core, twice the time is no regression. */
static void shared_cores_are_not_judged(void **state)
{
	(void)state;
	begin();
	after.values[1].p50 *= 2;
	shared = "two";
	compare(&after, "");
	shared = "";
	assert_int_equal(findings(text, sizeof(text)), 0);
	row_is(0, "two", "shared core, not judged");
	end();
}

static void own_run_is_refused(void **state)
{
	(void)state;
	begin();
	after.id = "before";
	compare(&after, "");
	verdict_says("refused", "this run itself");
	end();
}

static void bad_baselines(void **state)
{
	static const struct {
		const char *bytes, *says;
	} bad[] = {
		{"", "damaged"},
		{"no json at all", "damaged"},
		{"{\"schema\": \"mcspin-results-1\", \"benches\": [{\"na", "damaged"},
		{"{\"schema\": \"mcspin-results-2\"}", "no mcspin results of version 1"},
		{"{\"tests\": []}", "no mcspin results of version 1"},
		{"[1, 2]", "damaged"},
		{"{\"schema\": \"mcspin-results-1\"}", "another machine"},
		{"{\"schema\": \"mcspin-results-1\", \"run\": 7, \"machine\": [], \"benches\": {\"a\": 1}}",
		 "another machine"},
	};
	const struct json *warned;
	char text[200];

	(void)state;
	begin();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		write_baseline(bad[i].bytes, strlen(bad[i].bytes));
		compare(&after, "");
		verdict_says(strstr(bad[i].says, "another") ? "refused" : "unreadable", bad[i].says);
		end();
	}
	unlink(path);
	compare(&after, "");
	verdict_says("unreadable", "there is none of that name");
	/* Asked for and not made: that run is no pass, and says why. */
	warned = stream_load(&s, stream_last(&s, "warn"));
	json_text(warned, json_get(warned, 0, "text"), text, sizeof(text));
	assert_ptr_equal(strstr(text, "no comparison: baseline"), text);
	end();
}

/* Any prefix and any flipped byte of a good baseline: a sentence or a table, never a crash. */
static void damaged_baselines(void **state)
{
	size_t len;

	(void)state;
	make_baseline(&before);
	len = strlen(form);
	srandom(5);
	for (unsigned round = 0; round < 300; round++) {
		char *bytes = malloc(len);

		memcpy(bytes, form, len);
		if (round % 2)
			bytes[random() % len] = (char)random();
		write_baseline(bytes, round % 2 ? len : random() % len);
		free(bytes);
		compare(&after, round % 3 ? "machines" : "");
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alike_finds_nothing),
		cmocka_unit_test(worse_is_named),
		cmocka_unit_test(better_is_said),
		cmocka_unit_test(noise_and_threshold_hold),
		cmocka_unit_test(noise_of_either_side), cmocka_unit_test(parameters_tell_apart),
		cmocka_unit_test(moved_control_ends_it),
		cmocka_unit_test(no_control_no_verdict),
		cmocka_unit_test(other_machine_is_refused),
		cmocka_unit_test(copied_table_is_seen),
		cmocka_unit_test(emulated_times_are_not_judged),
		cmocka_unit_test(shared_cores_are_not_judged),
		cmocka_unit_test(own_run_is_refused),
		cmocka_unit_test(bad_baselines),
		cmocka_unit_test(damaged_baselines),
	};
	int failed;

	if (mkstemp(path) < 0)
		return 1;
	host_quiet = true;
	options_init(&options);
	if (host_start(1, NULL))
		return 1;
	failed = cmocka_run_group_tests_name("compare", tests, NULL, NULL);
	unlink(path);
	return failed;
}
