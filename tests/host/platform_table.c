/* SPDX-License-Identifier: GPL-2.0-only */
/* The run as text of 100 columns: what `make bench` leaves on a terminal. A view like the others, but no
 * machine without an operating system has a terminal to leave it on, so the image does without. */
#include "../../src/report/event.h"
#include "../../src/report/stream.h"
#include "../../src/report/views.h"

static void text_of(const struct json *j, int at, char *buf, size_t len)
{
	if (json_is_null(j, at))
		mc_snprintf(buf, len, "-");
	else
		json_text(j, at, buf, len);
}

static void field(struct sink *out, const struct json *j, const char *key, int width)
{
	char text[380];

	text_of(j, json_get(j, 0, key), text, sizeof(text));
	if (width < 0)
		sink_fmt(out, "%-*s", -width, text);
	else
		sink_fmt(out, "%*s", width, text);
}

/* To the right, thousandths only where they are a thousandth of what is read. */
static void figure(struct sink *out, const struct json *j, const char *key, int width)
{
	char text[40];

	text_of(j, json_get(j, 0, key), text, sizeof(text));
	for (size_t i = 0; text[i]; i++) {
		if (text[i] == '.' && i >= 4)
			text[i] = 0;
	}
	sink_fmt(out, "%*s", width, text);
}

static void params(struct sink *out, const struct json *j)
{
	int object = json_get(j, 0, "params");
	char all[200] = "";
	size_t at = 0;

	for (int k = json_first(j, object); k != JSON_NONE && at < sizeof(all); k = json_next(j, k)) {
		char key[40], text[60];

		json_text(j, k, key, sizeof(key));
		text_of(j, k + 1, text, sizeof(text));
		at += mc_snprintf(all + at, sizeof(all) - at, "%s%s=%s", at ? " " : "", key, text);
	}
	sink_fmt(out, "  %s\n", all);
}

static void heading(struct sink *out, struct stream *s)
{
	const struct json *j = stream_load(s, stream_last(s, "machine"));
	bool emulated = json_is_true(j, json_get(j, 0, "emulated"));

	if (emulated)
		sink_text(out, "EMULATION: times prove nothing about speed\n");
	field(out, j, "brand", -1);
	sink_text(out, ", machine ");
	field(out, j, "fingerprint", -1);
	j = stream_load(s, stream_find(s, "run", 0));
	sink_text(out, ", run ");
	field(out, j, "id", -1);
	sink_text(out, "\n");
}

static void bench_rows(struct sink *out, struct stream *s)
{
	const struct json *j;
	unsigned at = 0;
	char last[48] = "", name[48];

	while ((j = stream_each(s, "bench", &at))) {
		json_text(j, json_get(j, 0, "name"), name, sizeof(name));
		if (memcmp(name, last, sizeof(name))) {
			sink_fmt(out, "\n%-30s %-12s %14s %12s %8s\n", name, "unit", "median", "noise",
				 "samples");
			memcpy(last, name, sizeof(name));
		}
		sink_text(out, "  ");
		field(out, j, "variant", -28);
		sink_text(out, " ");
		field(out, j, "unit", -12);
		sink_text(out, " ");
		figure(out, j, "p50", 14);
		sink_text(out, " ");
		figure(out, j, "noise", 12);
		sink_text(out, " ");
		field(out, j, "samples", 8);
		params(out, j);
	}
}

static void compare_rows(struct sink *out, struct stream *s)
{
	const struct json *j = stream_load(s, stream_last(s, "compare"));
	unsigned at = 0;

	if (!j->count)
		return;
	sink_text(out, "\ncomparison: ");
	field(out, j, "verdict", -1);
	sink_fmt(out, "\n%14s %14s %10s %9s  %s\n", "old", "new", "change %", "noise %", "verdict");
	while ((j = stream_each(s, "compare_row", &at))) {
		figure(out, j, "old", 14);
		sink_text(out, " ");
		figure(out, j, "new", 14);
		sink_text(out, " ");
		field(out, j, "change_percent", 10);
		sink_text(out, " ");
		field(out, j, "noise_percent", 9);
		sink_text(out, "  ");
		field(out, j, "verdict", -16);
		sink_text(out, " ");
		field(out, j, "name", -1);
		sink_text(out, " ");
		field(out, j, "variant", -1);
		params(out, j);
	}
}

/* How it ended: what failed and why, then all of it in a line. */
static void outcome(struct sink *out, struct stream *s)
{
	struct totals t;
	const struct json *j;
	unsigned at = 0;

	while ((j = stream_each(s, "test", &at))) {
		int result = json_get(j, 0, "result");

		if (!json_is(j, result, "fail") && !json_is(j, result, "error"))
			continue;
		sink_text(out, "FAILED: ");
		field(out, j, "suite", -1);
		sink_text(out, ".");
		field(out, j, "name", -1);
		sink_text(out, ": ");
		field(out, j, "reason", -1);
		sink_text(out, "\n");
	}
	view_totals(s, &t);
	sink_fmt(out, "\n%s: %u tests passed, %u failed, %u skipped, %u broke\n",
		 t.finished ? t.result : "not finished", t.pass, t.fail, t.skip, t.error);
}

int view_table(const char *log, size_t len, struct sink *out)
{
	static char text[512];
	struct stream s;
	const struct json *j;
	unsigned at = 0;

	if (!stream_open(&s, log, len))
		return -EINVAL;
	heading(out, &s);
	bench_rows(out, &s);
	sink_text(out, "\n");
	while ((j = stream_each(&s, "finding", &at))) {
		json_text(j, json_get(j, 0, "text"), text, sizeof(text));
		sink_text(out, "finding: ");
		sink_text(out, text);
		sink_text(out, "\n");
	}
	compare_rows(out, &s);
	outcome(out, &s);
	stream_close(&s);
	return 0;
}
