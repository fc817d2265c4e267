/* SPDX-License-Identifier: GPL-2.0-only */
#include "compare.h"
#include "event.h"
#include "json.h"
#include "views.h"
#include "../platform.h"
#include "../run/options.h"
#include "../run/run.h"

#define BASELINE_MAX (4 << 20)
#define MAX_ROWS     1024
#define MAX_FINDINGS 12

/* One measured value of a run: a bench's median, or a finding that a test counted. */
struct value {
	int at; /* its object */
	int name, variant, params, unit;
	size_t variant_len; /* of a finding's text, the first word */
	s64 p50, noise;	    /* in 1/1000 */
	bool counted;	    /* exact: the noise is 0 and emulation does not matter */
	bool shared;	    /* taken with a neighbour on the core */
	bool taken;
};

struct side {
	char *buf;
	size_t cap;
	struct json doc;
	struct value *values;
	unsigned count;
};

struct row {
	const struct value *old, *new;
	s64 change, noise; /* in 1/100 percent of the old value */
	const char *verdict;
	bool claimed;
};

static struct side old, new;
static struct row *rows;
static unsigned row_count;
static const struct row *control;
static char why[640];

/* -------------------------------------------------------------------- reading */

static size_t first_word(const struct json *j, int at)
{
	size_t len, n = 0;
	const char *text = json_raw(j, at, &len);

	while (n < len && text[n] != ' ')
		n++;
	return n;
}

static void take_bench(struct side *s, int at)
{
	const struct json *j = &s->doc;
	struct value *v = &s->values[s->count];
	s64 low = 0, high = 0;

	*v = (struct value){
		.at = at,
		.name = json_get(j, at, "name"),
		.variant = json_get(j, at, "variant"),
		.params = json_get(j, at, "params"),
		.unit = json_get(j, at, "unit"),
	};
	v->counted = json_is(j, v->unit, "instructions") || json_is(j, v->unit, "copies");
	v->shared = json_is_true(j, json_get(j, at, "shared_core"));
	if (!json_fixed(j, json_get(j, at, "p50"), 3, &v->p50) || v->p50 <= 0)
		return;
	json_raw(j, v->variant, &v->variant_len);
	if (!json_fixed(j, json_get(j, at, "noise"), 3, &v->noise)) {
		json_fixed(j, json_get(j, at, "ci_low"), 3, &low);
		json_fixed(j, json_get(j, at, "ci_high"), 3, &high);
		v->noise = (high - low) / 2;
	}
	s->count++;
}

/* A finding whose first evidence is a test was counted, not timed. Its text begins with what it
 * is about. */
static void take_finding(struct side *s, int at)
{
	const struct json *j = &s->doc;
	struct value *v = &s->values[s->count];
	size_t len;
	const char *proof = json_raw(j, json_first(j, json_get(j, at, "evidence")), &len);

	if (len < 5 || memcmp(proof, "test:", 5))
		return;
	*v = (struct value){
		.at = at,
		.name = json_get(j, at, "name"),
		.variant = json_get(j, at, "text"),
		.params = JSON_NONE,
		.unit = JSON_NONE,
		.counted = true,
	};
	v->variant_len = first_word(j, v->variant);
	if (json_fixed(j, json_get(j, at, "ratio"), 3, &v->p50) && v->p50 > 0)
		s->count++;
}

static void take_list(struct side *s, const char *key, void (*take)(struct side *s, int at))
{
	int list = json_get(&s->doc, 0, key);

	for (int at = json_first(&s->doc, list); at != JSON_NONE && s->count < MAX_ROWS;
	     at = json_next(&s->doc, at))
		take(s, at);
}

static bool take_values(struct side *s)
{
	s->values = platform_alloc((MAX_ROWS + 1) * sizeof(*s->values));
	if (!s->values) {
		mc_snprintf(why, sizeof(why), "there is no memory for a comparison");
		return false;
	}
	take_list(s, "benches", take_bench);
	take_list(s, "findings", take_finding);
	return true;
}

static bool has_slash(const char *s)
{
	while (*s && *s != '/' && *s != '\\')
		s++;
	return *s;
}

static bool ends_in_json(const char *s)
{
	size_t n = text_length(s);

	return n > 5 && !memcmp(s + n - 5, ".json", 5);
}

static bool read_old(void)
{
	char path[160];
	bool file = has_slash(options.baseline) || ends_in_json(options.baseline);
	s64 len;

	mc_snprintf(path, sizeof(path), file ? "%s" : "%s/results.json", options.baseline);
	old.cap = BASELINE_MAX;
	old.buf = platform_alloc(old.cap);
	if (!old.buf) {
		mc_snprintf(why, sizeof(why), "there is no memory for a baseline");
		return false;
	}
	len = platform_file_read(path, old.buf, old.cap);
	if (len < 0)
		mc_snprintf(why, sizeof(why), "baseline %s cannot be read (%s, error %d)", path,
			    len == -ENOENT ? "there is none of that name" : "the volume says no",
			    (int)-len);
	else if (len > (s64)old.cap)
		mc_snprintf(why, sizeof(why), "baseline %s is too large to be one", path);
	else if (!json_parse_alloc(&old.doc, old.buf, len))
		mc_snprintf(why, sizeof(why), "baseline %s is damaged: no whole JSON object", path);
	else if (!json_is(&old.doc, json_get(&old.doc, 0, "schema"), "mcspin-results-1"))
		mc_snprintf(why, sizeof(why), "baseline %s is no mcspin results of version 1", path);
	else
		return take_values(&old);
	return false;
}

/* The results of this run so far, made as the file will be: both sides have one shape, and the log
 * may move in memory while events are emitted. */
static bool read_new(void)
{
	struct sink sink;
	size_t len;
	const char *log = event_log(&len);

	new.cap = len * 2 + (64 << 10);
	new.buf = platform_alloc(new.cap);
	if (new.buf) {
		sink_buffer(&sink, new.buf, new.cap);
		if (!view_results_json(log, len, &sink) && !sink.overflow &&
		    json_parse_alloc(&new.doc, new.buf, sink.len))
			return take_values(&new);
	}
	mc_snprintf(why, sizeof(why), "this run's own results could not be read back");
	return false;
}

static void drop(struct side *s)
{
	json_free(&s->doc);
	if (s->buf)
		platform_free(s->buf, s->cap);
	if (s->values)
		platform_free(s->values, (MAX_ROWS + 1) * sizeof(*s->values));
	*s = (struct side){0};
}

/* -------------------------------------------------------------------- the machines */

static int path_of(const struct json *j, const char *object, const char *key)
{
	return json_get(j, json_get(j, 0, object), key);
}

static bool equal(int a, int b)
{
	size_t alen, blen;
	const char *x = json_raw(&old.doc, a, &alen), *y = json_raw(&new.doc, b, &blen);

	return alen == blen && !memcmp(x, y, alen);
}

/* Appends "brand (A, now B)" for each fact that differs; false: none does. */
static bool say_differences(char *buf, size_t len)
{
	static const char *const facts[] = {"vendor", "brand", "family", "model", "stepping",
					    "microcode", "firmware", "cpus", "memory_mib",
					    "hypervisor"};
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(facts) && at < len; i++) {
		int a = path_of(&old.doc, "machine", facts[i]);
		int b = path_of(&new.doc, "machine", facts[i]);
		char was[120], is[120];

		if (equal(a, b))
			continue;
		json_text(&old.doc, a, was, sizeof(was));
		json_text(&new.doc, b, is, sizeof(is));
		at += mc_snprintf(buf + at, len - at, "%s%s (%s, now %s)", at ? ", " : "", facts[i],
				  was, is);
	}
	return at;
}

static bool same_machine(void)
{
	return equal(path_of(&old.doc, "machine", "fingerprint"),
		     path_of(&new.doc, "machine", "fingerprint"));
}

static bool emulated(const struct side *s)
{
	return json_is_true(&s->doc, path_of(&s->doc, "machine", "emulated"));
}

/* -------------------------------------------------------------------- rows */

static bool same_value(const struct value *a, const struct value *b)
{
	size_t unused;

	return a->variant_len == b->variant_len && equal(a->name, b->name) &&
	       !memcmp(json_raw(&old.doc, a->variant, &unused),
		       json_raw(&new.doc, b->variant, &unused), a->variant_len) &&
	       equal(a->params, b->params) && equal(a->unit, b->unit);
}

static s64 magnitude(s64 v)
{
	return v < 0 ? -v : v;
}

/* part / of, scaled, without 128-bit division: that lives in a library with a red zone. */
static s64 scaled(s64 part, s64 of, s64 scale)
{
	if (magnitude(part) > INT64_MAX / 2 / scale)
		return part / max_of(of / scale, (s64)1);
	part *= scale;
	return (part + (part < 0 ? -of / 2 : of / 2)) / of;
}

/* In 1/100 percent. */
static s64 hundredths(s64 part, s64 of)
{
	return scaled(part, of, 10000);
}

static void make_rows(void)
{
	control = NULL;
	row_count = 0;
	for (unsigned n = 0; n < new.count; n++) {
		for (unsigned o = 0; o < old.count; o++) {
			struct value *a = &old.values[o], *b = &new.values[n];
			struct row *r = &rows[row_count];

			if (a->taken || !same_value(a, b))
				continue;
			a->taken = true;
			*r = (struct row){.old = a, .new = b, .change = hundredths(b->p50 - a->p50, a->p50)};
			r->noise = b->counted ? 0 : hundredths(a->noise + b->noise, a->p50);
			row_count++;
			break;
		}
	}
}

static void sort_rows(void)
{
	for (unsigned i = 1; i < row_count; i++) {
		struct row r = rows[i];
		unsigned at = i;

		for (; at && magnitude(rows[at - 1].change) < magnitude(r.change); at--)
			rows[at] = rows[at - 1];
		rows[at] = r;
	}
	for (unsigned i = 0; i < row_count; i++) {
		if (json_is(&new.doc, rows[i].new->name, "control"))
			control = &rows[i];
	}
}

/* Time moves with the clock, the firmware and the neighbours; the control shows it. */
static bool control_moved(void)
{
	s64 bound = (s64)options.threshold * 50; /* half of the threshold */

	return control && magnitude(control->change) > max_of(control->noise, bound);
}

/* Two measurements of time never agree in every digit. */
static bool is_a_copy(void)
{
	unsigned timed = 0;

	for (unsigned i = 0; i < row_count; i++) {
		if (rows[i].new->counted)
			continue;
		timed++;
		if (rows[i].old->p50 != rows[i].new->p50 || rows[i].old->noise != rows[i].new->noise)
			return false;
	}
	return timed >= 4;
}

static bool more_is_better(const struct value *v)
{
	size_t len;
	const char *unit = json_raw(&new.doc, v->unit, &len);

	for (size_t i = 0; i < len; i++) {
		if (unit[i] == '/' || (i + 5 <= len && !memcmp(unit + i, "_per_", 5)))
			return true;
	}
	return false;
}

static bool within(s64 change, s64 bound)
{
	return magnitude(change) <= bound;
}

/* `instead` replaces every verdict but the control's. */
static void judge(struct row *r, const char *instead)
{
	bool timed = !r->new->counted;

	r->claimed = false;
	if (r == control)
		r->verdict = control_moved() ? "control moved" : "control stands";
	else if (instead)
		r->verdict = instead;
	else if (timed && (emulated(&old) || emulated(&new)))
		r->verdict = "emulated time, not judged";
	else if (timed && (r->old->shared || r->new->shared))
		r->verdict = "shared core, not judged";
	else if (within(r->change, r->noise))
		r->verdict = "within noise";
	else if (within(r->change, (s64)options.threshold * 100))
		r->verdict = "below threshold";
	else
		r->claimed = true;
	if (r->claimed)
		r->verdict = (r->change > 0) == more_is_better(r->new) ? "better" : "worse";
}

/* -------------------------------------------------------------------- telling */

static void tell_text(const char *key, const struct side *s, int at)
{
	char text[160];

	json_text(&s->doc, at, text, sizeof(text));
	event_str(key, json_is_null(&s->doc, at) ? NULL : text);
}

static void tell_params(const struct value *v)
{
	const struct json *j = &new.doc;

	event_object("params");
	for (int k = json_first(j, v->params); k != JSON_NONE; k = json_next(j, k)) {
		char key[40], text[80];
		s64 number;

		json_text(j, k, key, sizeof(key));
		json_text(j, k + 1, text, sizeof(text));
		if (!json_is_string(j, k + 1) && json_fixed(j, k + 1, 0, &number))
			event_s64(key, number);
		else
			event_str(key, text);
	}
	event_close();
}

static void variant_text(const struct value *v, char *buf, size_t len)
{
	json_text(&new.doc, v->variant, buf, min_of(len, v->variant_len + 1));
}

static void tell_row(const struct row *r)
{
	char variant[80];

	variant_text(r->new, variant, sizeof(variant));
	event_begin("compare_row");
	tell_text("baseline", &old, path_of(&old.doc, "run", "id"));
	tell_text("baseline_fingerprint", &old, path_of(&old.doc, "machine", "fingerprint"));
	tell_text("name", &new, r->new->name);
	event_str("variant", variant);
	tell_params(r->new);
	if (r->new->unit == JSON_NONE)
		event_str("unit", "counted");
	else
		tell_text("unit", &new, r->new->unit);
	event_fixed("old", r->old->p50, 3);
	event_fixed("new", r->new->p50, 3);
	event_fixed("change_percent", r->change, 2);
	event_fixed("noise_percent", r->noise, 2);
	event_str("verdict", r->verdict);
	event_end();
}

/* "(length 4096, caches hot)" */
static void params_text(const struct value *v, char *buf, size_t len)
{
	const struct json *j = &new.doc;
	size_t at = 0;

	*buf = 0;
	for (int k = json_first(j, v->params); k != JSON_NONE && at < len; k = json_next(j, k)) {
		char key[40], text[40];

		json_text(j, k, key, sizeof(key));
		json_text(j, k + 1, text, sizeof(text));
		at += mc_snprintf(buf + at, len - at, "%s%s %s", at ? ", " : " (", key, text);
	}
	if (at && at + 1 < len)
		memcpy(buf + at, ")", 2);
}

static const char *percent(s64 hundredths_of, char buf[24])
{
	u64 m = (u64)magnitude(hundredths_of);

	mc_snprintf(buf, 24, "%s%llu.%02llu %%", hundredths_of < 0 ? "-" : "+",
		    (unsigned long long)(m / 100), (unsigned long long)(m % 100));
	return buf;
}

static void row_text(const struct row *r, char *buf, size_t len)
{
	char name[48], variant[80], params[120], change[24];

	json_text(&new.doc, r->new->name, name, sizeof(name));
	variant_text(r->new, variant, sizeof(variant));
	params_text(r->new, params, sizeof(params));
	mc_snprintf(buf, len, "%s %s%s: %s", name, variant, params, percent(r->change, change));
}

static void tell_finding(const struct row *r)
{
	char text[400], what[300], noise[24], by[80], moved[80], id[48], print[48], change[24];
	const char *evidence[] = {by, id, print, moved, NULL};

	row_text(r, what, sizeof(what));
	json_text(&old.doc, path_of(&old.doc, "run", "id"), print, 40);
	mc_snprintf(text, sizeof(text), "%s against run %s: %s (noise %s, threshold %u %%)", what, print,
		    r->verdict, percent(r->noise, noise) + 1, options.threshold);
	mc_snprintf(id, sizeof(id), "baseline:%s", print);
	json_text(&new.doc, r->new->name, print, 40);
	mc_snprintf(by, sizeof(by), r->new->unit == JSON_NONE ? "finding:%s" : "bench:%s", print);
	json_text(&new.doc, path_of(&new.doc, "machine", "fingerprint"), what, 40);
	mc_snprintf(print, sizeof(print), "fingerprint:%s", what);
	mc_snprintf(moved, sizeof(moved), "the control bench moved by %s",
		    percent(control ? control->change : 0, change));
	event_finding(r->verdict[0] == 'w' ? "regression" : "improvement", text, true,
		      scaled(r->new->p50, r->old->p50, 10000), 4, evidence);
}

static unsigned claims(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < row_count; i++)
		n += rows[i].claimed;
	return n;
}

static void tell_control(void)
{
	if (!control) {
		event_null("control");
		return;
	}
	event_object("control");
	event_fixed("old", control->old->p50, 3);
	event_fixed("new", control->new->p50, 3);
	event_fixed("change_percent", control->change, 2);
	event_fixed("noise_percent", control->noise, 2);
	event_bool("moved", control_moved());
	event_close();
}

static void tell(const char *kind, const char *verdict)
{
	event_begin("compare");
	event_str("kind", kind);
	event_str("asked", options.baseline);
	tell_text("baseline", &old, path_of(&old.doc, "run", "id"));
	tell_text("baseline_fingerprint", &old, path_of(&old.doc, "machine", "fingerprint"));
	tell_text("baseline_options", &old, path_of(&old.doc, "run", "options"));
	event_u64("threshold_percent", options.threshold);
	event_u64("rows", row_count);
	event_u64("changed", claims());
	/* What only one of the runs has measured is no row; that it is so must not be silent. */
	event_u64("only_old", old.count - row_count);
	event_u64("only_new", new.count - row_count);
	tell_control();
	event_str("verdict", verdict);
	event_end();
	ktap_line("# compare: %s", verdict);
	for (unsigned i = 0; i < row_count; i++)
		tell_row(&rows[i]);
	for (unsigned i = 0, n = 0; i < row_count && n < MAX_FINDINGS; i++) {
		if (rows[i].claimed) {
			tell_finding(&rows[i]);
			n++;
		}
	}
}

/* -------------------------------------------------------------------- the story */

static void judge_all(const char *instead)
{
	make_rows();
	sort_rows();
	for (unsigned i = 0; i < row_count; i++)
		judge(&rows[i], instead);
}

static void other_machine(const char *id)
{
	char differs[480];
	bool wanted = *options.compare;

	if (!say_differences(differs, sizeof(differs)))
		mc_snprintf(differs, sizeof(differs), "the fingerprint");
	if (wanted)
		judge_all("another machine");
	mc_snprintf(why, sizeof(why), "run %s is of another machine; what differs: %s. %s", id, differs,
		    wanted ? "Side by side only, as compare=machines asks"
			   : "Not compared as before and after; compare=machines shows them side by side");
	tell(wanted ? "machines" : "refused", why);
}

static void before_and_after(const char *id)
{
	char largest[300], change[24];
	const char *instead = NULL;

	judge_all(NULL);
	if (!row_count) {
		mc_snprintf(why, sizeof(why), "run %s has no measurement in common with this one", id);
	} else if (is_a_copy()) {
		instead = "copied, not judged";
		mc_snprintf(why, sizeof(why),
			    "no verdict: every time equals run %s to the last digit, which no two "
			    "measurements do; one table is a copy of the other", id);
	} else if (!control) {
		instead = "no control, not judged";
		mc_snprintf(why, sizeof(why), "no verdict: run %s and this one share no control bench", id);
	} else if (control_moved()) {
		instead = "control moved, not judged";
		mc_snprintf(why, sizeof(why),
			    "no verdict: the control bench, which takes no lock and copies nothing, moved "
			    "by %s against run %s, so something else than the code has changed",
			    percent(control->change, change), id);
	} else if (claims()) {
		const struct row *r = rows;

		while (!r->claimed)
			r++;
		row_text(r, largest, sizeof(largest));
		mc_snprintf(why, sizeof(why), "%u of %u changed beyond noise and %u %% against run %s; most: %s",
			    claims(), row_count, options.threshold, id, largest);
	} else {
		mc_snprintf(why, sizeof(why), "none of %u changed beyond noise and %u %% against run %s%s",
			    row_count, options.threshold, id,
			    emulated(&new) ? "; emulated times are not judged, counts are" : "");
	}
	for (unsigned i = 0; instead && i < row_count; i++)
		judge(&rows[i], instead);
	tell("before-after", why);
}

static void compare(void)
{
	char id[48];

	if (!read_old() || !read_new()) {
		tell("unreadable", why);
		run_worsen(RESULT_ERROR, "no comparison: %s", why);
		return;
	}
	json_text(&old.doc, path_of(&old.doc, "run", "id"), id, sizeof(id));
	if (equal(path_of(&old.doc, "run", "id"), path_of(&new.doc, "run", "id"))) {
		mc_snprintf(why, sizeof(why), "run %s is this run itself", id);
		tell("refused", why);
	} else if (!same_machine()) {
		other_machine(id);
	} else {
		before_and_after(id);
	}
}

void compare_with_baseline(void)
{
	if (!*options.baseline)
		return;
	row_count = 0;
	control = NULL;
	rows = platform_alloc((MAX_ROWS + 1) * sizeof(*rows));
	if (rows)
		compare();
	else
		event_warn("there is no memory for a comparison");
	drop(&old);
	drop(&new);
	if (rows)
		platform_free(rows, (MAX_ROWS + 1) * sizeof(*rows));
	rows = NULL;
}
