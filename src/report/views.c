/* SPDX-License-Identifier: GPL-2.0-only */
/* results.json: the events' own text, sorted into the schema's places; and what the views share. */
#include "views.h"
#include "event.h"
#include "stream.h"

static void to_buffer(struct sink *s, const char *bytes, size_t len)
{
	if (s->overflow || len > s->cap - s->len) {
		s->overflow = true;
		return;
	}
	memcpy(s->buf + s->len, bytes, len);
	s->len += len;
}

void sink_buffer(struct sink *s, char *buf, size_t cap)
{
	*s = (struct sink){.write = to_buffer, .buf = buf, .cap = cap};
}

void sink_text(struct sink *s, const char *text)
{
	s->write(s, text, text_length(text));
}

void sink_fmt(struct sink *s, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	mc_vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sink_text(s, text);
}

void sink_markup_text(struct sink *s, const char *text, size_t len)
{
	for (; len; text++, len--) {
		u8 c = *text;

		if (c == '<')
			sink_text(s, "&lt;");
		else if (c == '>')
			sink_text(s, "&gt;");
		else if (c == '&')
			sink_text(s, "&amp;");
		else if (c == '"')
			sink_text(s, "&quot;");
		else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			sink_text(s, "\xef\xbf\xbd"); /* U+FFFD: no such character in XML */
		else
			s->write(s, text, 1);
	}
}

void sink_markup(struct sink *s, const struct json *j, int at)
{
	static char text[EVENT_MAX];

	json_text(j, at, text, sizeof(text));
	sink_markup_text(s, text, text_length(text));
}

/* -------------------------------------------------------------------- totals */

static void copy_word(char *to, size_t room, const char *word)
{
	mc_snprintf(to, room, "%s", word);
}

void view_totals(struct stream *s, struct totals *t)
{
	const struct json *j;
	unsigned at = 0;
	int done = stream_last(s, "done");

	*t = (struct totals){.crashed = stream_find(s, "crash", 0) >= 0};
	while ((j = stream_each(s, "test", &at))) {
		int result = json_get(j, 0, "result");

		t->pass += json_is(j, result, "pass");
		t->fail += json_is(j, result, "fail");
		t->skip += json_is(j, result, "skip");
		t->error += json_is(j, result, "error");
	}
	copy_word(t->result, sizeof(t->result), "error");
	t->finished = done >= 0;
	if (t->finished && !t->crashed) {
		j = stream_load(s, done);
		json_text(j, json_get(j, 0, "result"), t->result, sizeof(t->result));
	}
}

/* -------------------------------------------------------------------- results.json */

static const char *const never[] = {"event", "schema", NULL};

static bool among(const struct json *j, int key, const char *const *names)
{
	for (; names && *names; names++) {
		if (json_is(j, key, *names))
			return true;
	}
	return false;
}

static void source(struct sink *out, const struct json *j, int at)
{
	size_t len;
	const char *text = json_source(j, at, &len);

	out->write(out, text, len);
}

/* The fields of an event as they stand, but for those in `never`. Returns how many. */
static unsigned fields(struct sink *out, const struct json *j)
{
	unsigned n = 0;

	for (int k = json_first(j, 0); k != JSON_NONE; k = json_next(j, k)) {
		if (among(j, k, never))
			continue;
		if (n++)
			sink_text(out, ", ");
		source(out, j, k);
		sink_text(out, ": ");
		source(out, j, k + 1);
	}
	return n;
}

static void list(struct sink *out, struct stream *s, const char *key, const char *kind)
{
	const struct json *j;
	unsigned at = 0, n = 0;

	sink_fmt(out, ",\n \"%s\": [", key);
	while ((j = stream_each(s, kind, &at))) {
		sink_text(out, n++ ? ",\n  {" : "\n  {");
		fields(out, j);
		sink_text(out, "}");
	}
	sink_text(out, "]");
}

/* An event that occurs once; the last one counts, since it knows most. */
static void single(struct sink *out, struct stream *s, const char *key, const char *kind)
{
	int i = stream_last(s, kind);

	sink_fmt(out, ",\n \"%s\": ", key);
	if (i < 0) {
		sink_text(out, "null");
		return;
	}
	sink_text(out, "{");
	fields(out, stream_load(s, i));
	sink_text(out, "}");
}

static void run_object(struct sink *out, struct stream *s, const struct totals *t)
{
	const struct json *j = stream_load(s, stream_find(s, "run", 0));
	int seconds;

	sink_text(out, ",\n \"run\": {");
	fields(out, j);
	j = stream_load(s, stream_last(s, "done"));
	seconds = json_get(j, 0, "seconds");
	sink_text(out, ", \"seconds\": ");
	if (seconds == JSON_NONE)
		sink_text(out, "null");
	else
		source(out, j, seconds);
	sink_fmt(out, ", \"result\": \"%s\", \"finished\": %s", t->result,
		 t->finished ? "true" : "false");
	sink_fmt(out, ", \"totals\": {\"pass\": %u, \"fail\": %u, \"skip\": %u, \"error\": %u}}",
		 t->pass, t->fail, t->skip, t->error);
}

static void times_line(struct sink *out, struct stream *s)
{
	const struct json *j = stream_load(s, stream_last(s, "machine"));

	sink_text(out, " \"times\": ");
	if (json_is_true(j, json_get(j, 0, "emulated")))
		sink_text(out, "\"EMULATION: this run's times are emulation and prove nothing about "
			       "speed\"");
	else
		sink_text(out, "\"real\"");
}

static void feature_objects(struct sink *out, struct stream *s)
{
	const struct json *j = stream_load(s, stream_last(s, "feature"));
	int features = json_get(j, 0, "features");
	int because = json_get(j, 0, "because");

	sink_text(out, ",\n \"features\": ");
	if (features == JSON_NONE)
		sink_text(out, "{}");
	else
		source(out, j, features);
	sink_text(out, ",\n \"features_because\": ");
	if (because == JSON_NONE)
		sink_text(out, "{}");
	else
		source(out, j, because);
}

int view_results_json(const char *log, size_t len, struct sink *out)
{
	static const struct {
		const char *key, *kind;
	} lists[] = {
		{"sites", "site"},	     {"tests", "test"},		 {"benches", "bench"},
		{"findings", "finding"},     {"warnings", "warn"},	 {"comparison_rows", "compare_row"},
		{"skipped_benches", "bench_skipped"}, {"crashes", "crash"},
		{"listings", "listing"},     {"contests", "contest"},
	};
	static const struct {
		const char *key, *kind;
	} singles[] = {
		{"comparison", "compare"},
		{"patching", "patching"},
		{"fragile_key", "fragile_key"},
		{"vcpu_is_preempted", "vcpu_is_preempted"},
	};
	struct stream s;
	struct totals t;

	if (!stream_open(&s, log, len))
		return -EINVAL;
	view_totals(&s, &t);
	sink_text(out, "{\"schema\": \"mcspin-results-1\",\n");
	times_line(out, &s);
	run_object(out, &s, &t);
	single(out, &s, "machine", "machine");
	feature_objects(out, &s);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		list(out, &s, lists[i].key, lists[i].kind);
	for (size_t i = 0; i < ARRAY_SIZE(singles); i++)
		single(out, &s, singles[i].key, singles[i].kind);
	sink_text(out, "}\n");
	stream_close(&s);
	return 0;
}
