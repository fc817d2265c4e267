/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * junit.xml, in the narrow form that both common schemas (Ant's and Jenkins') take: every suite
 * bears its machine as properties, and one suite more, "run", says how the run itself ended, so that
 * a crash after the last test is not green.
 */
#include "views.h"
#include "event.h"
#include "stream.h"

#define MAX_SUITES 32

struct suite {
	char name[48];
	unsigned tests, fail, error, skip;
	u64 ticks;
};

static struct suite suites[MAX_SUITES];
static unsigned suite_count;
static s64 hz;
static char host[64], stamp[24];

static struct suite *suite_of(const struct json *j)
{
	int name = json_get(j, 0, "suite");

	for (unsigned i = 0; i < suite_count; i++) {
		if (json_is(j, name, suites[i].name))
			return &suites[i];
	}
	if (suite_count == MAX_SUITES)
		return NULL;
	json_text(j, name, suites[suite_count].name, sizeof(suites[0].name));
	return &suites[suite_count++];
}

static u64 ticks_of(const struct json *j)
{
	s64 ticks;

	return json_fixed(j, json_get(j, 0, "ticks"), 0, &ticks) && ticks > 0 ? ticks : 0;
}

static void collect(struct stream *s)
{
	const struct json *j;
	unsigned at = 0;

	memset(suites, 0, sizeof(suites));
	suite_count = 0;
	while ((j = stream_each(s, "test", &at))) {
		struct suite *suite = suite_of(j);
		int result = json_get(j, 0, "result");

		if (!suite)
			continue;
		suite->tests++;
		suite->fail += json_is(j, result, "fail");
		suite->error += json_is(j, result, "error");
		suite->skip += json_is(j, result, "skip");
		suite->ticks += ticks_of(j);
	}
}

static void seconds(struct sink *out, u64 ticks)
{
	u64 ms = hz >= 1000 ? ticks / ((u64)hz / 1000) : 0;

	sink_fmt(out, " time=\"%llu.%03llu\"", (unsigned long long)(ms / 1000),
		 (unsigned long long)(ms % 1000));
}

static void open_suite(struct sink *out, const struct suite *s, unsigned id)
{
	sink_fmt(out, "<testsuite id=\"%u\" package=\"mcspin\" name=\"", id);
	sink_text(out, s->name);
	sink_fmt(out, "\" timestamp=\"%s\" hostname=\"", stamp);
	sink_text(out, host);
	sink_fmt(out, "\" tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\"", s->tests,
		 s->fail, s->error, s->skip);
	seconds(out, s->ticks);
	sink_text(out, ">\n");
}

static void property(struct sink *out, const char *name, const struct json *j, int at)
{
	sink_fmt(out, "<property name=\"%s\" value=\"", name);
	sink_markup(out, j, at);
	sink_text(out, "\"/>\n");
}

/* Tables can never be mistaken for another machine's. */
static void properties(struct sink *out, struct stream *s)
{
	static const char *const run[] = {"id", "version", "options"};
	static const char *const machine[] = {"fingerprint", "vendor", "brand", "microcode",
					      "cpus", "emulated", "firmware", "product"};
	const struct json *j = stream_load(s, stream_find(s, "run", 0));

	sink_text(out, "<properties>\n");
	for (size_t i = 0; i < ARRAY_SIZE(run); i++)
		property(out, run[i], j, json_get(j, 0, run[i]));
	j = stream_load(s, stream_last(s, "machine"));
	for (size_t i = 0; i < ARRAY_SIZE(machine); i++)
		property(out, machine[i], j, json_get(j, 0, machine[i]));
	sink_text(out, "</properties>\n");
}

static void test_case(struct sink *out, const struct json *j, const char *suite)
{
	int result = json_get(j, 0, "result");
	int reason = json_get(j, 0, "reason");
	const char *tag = json_is(j, result, "fail")	? "failure"
			  : json_is(j, result, "error") ? "error"
			  : json_is(j, result, "skip")	? "skipped"
							: NULL;

	sink_fmt(out, "<testcase classname=\"mcspin.%s\" name=\"", suite);
	sink_markup(out, j, json_get(j, 0, "name"));
	sink_text(out, "\"");
	seconds(out, ticks_of(j));
	if (!tag) {
		sink_text(out, "/>\n");
		return;
	}
	sink_fmt(out, "><%s", tag);
	/* Ant's schema knows no attribute but message and type, and none at all on a skip. */
	sink_text(out, *tag == 's' ? " message=\"" : " type=\"check\" message=\"");
	sink_markup(out, j, reason);
	sink_fmt(out, "\"/></testcase>\n");
}

static void one_suite(struct sink *out, struct stream *s, unsigned id)
{
	const struct suite *suite = &suites[id];
	const struct json *j;
	unsigned at = 0;

	open_suite(out, suite, id);
	properties(out, s);
	while ((j = stream_each(s, "test", &at))) {
		if (json_is(j, json_get(j, 0, "suite"), suite->name))
			test_case(out, j, suite->name);
	}
	sink_text(out, "<system-out></system-out><system-err></system-err>\n</testsuite>\n");
}

static void ending(struct sink *out, struct stream *s, const struct totals *t)
{
	const struct json *j;
	unsigned at = 0;
	bool failed = t->fail || t->error;
	/* A failed test has already said so; what else made the run no pass is said here. */
	bool broken = !t->finished || t->crashed ||
		      (!failed && memcmp(t->result, "pass", 5));
	struct suite suite = {.name = "run", .tests = 1, .error = broken};

	open_suite(out, &suite, suite_count);
	properties(out, s);
	sink_text(out, "<testcase classname=\"mcspin.run\" name=\"ended_well\" time=\"0.000\"");
	if (broken)
		sink_fmt(out, "><error type=\"run\" message=\"%s\"/></testcase>\n",
			 t->crashed	? "the run crashed: see the crash report in the log"
			 : !t->finished ? "the run never said that it was done"
					: "the run ended as no pass: see system-out");
	else
		sink_text(out, "/>\n");
	sink_text(out, "<system-out>");
	while ((j = stream_each(s, "warn", &at))) {
		sink_markup(out, j, json_get(j, 0, "text"));
		sink_text(out, "\n");
	}
	sink_text(out, "</system-out><system-err></system-err>\n</testsuite>\n");
}

static void head(struct sink *out, struct stream *s)
{
	const struct json *j = stream_load(s, stream_find(s, "run", 0));
	size_t n = 0;

	/* Ant's schema wants a date without a zone; it is UTC. */
	json_text(j, json_get(j, 0, "started"), stamp, sizeof(stamp));
	while (stamp[n] && stamp[n] != 'Z')
		n++;
	stamp[n] = 0;
	if (!n || json_is_null(j, json_get(j, 0, "started")))
		mc_snprintf(stamp, sizeof(stamp), "1970-01-01T00:00:00");
	j = stream_load(s, stream_last(s, "machine"));
	mc_snprintf(host, sizeof(host), "mcspin-");
	json_text(j, json_get(j, 0, "fingerprint"), host + 7, 40);
	if (!json_fixed(j, json_get(j, json_get(j, 0, "tsc"), "hz"), 0, &hz))
		hz = 0;
	sink_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
	if (json_is_true(j, json_get(j, 0, "emulated")))
		sink_text(out, "<!-- EMULATION: this run's times are emulation and prove nothing "
			       "about speed. -->\n");
}

int view_junit_xml(const char *log, size_t len, struct sink *out)
{
	struct stream s;
	struct totals t;

	if (!stream_open(&s, log, len))
		return -EINVAL;
	view_totals(&s, &t);
	collect(&s);
	head(out, &s);
	sink_text(out, "<testsuites>\n");
	for (unsigned i = 0; i < suite_count; i++)
		one_suite(out, &s, i);
	ending(out, &s, &t);
	sink_text(out, "</testsuites>\n");
	stream_close(&s);
	return 0;
}
