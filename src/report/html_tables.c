/* SPDX-License-Identifier: GPL-2.0-only */
/* The tables of report.html. Each bears its run and machine in its caption. */
#include "event.h"
#include "html.h"

static void cell(struct page *p, const char *label, const struct json *j, const char *key,
		 const char *class)
{
	sink_fmt(p->out, "<td%s data-l=\"%s\">", class, label);
	html_value(p, j, json_get(j, 0, key));
	sink_text(p->out, "</td>");
}

static bool same_text(const struct json *j, int a, int b)
{
	size_t alen, blen;
	const char *x = json_raw(j, a, &alen), *y = json_raw(j, b, &blen);

	return alen == blen && !memcmp(x, y, alen);
}

/* -------------------------------------------------------------------- sites */

/* Sites of one name that came out alike are one row: what was decided is the point. */
struct seen {
	u32 hash[64];
	unsigned times[64], count;
};

/* How often the like of it was seen, this time included. */
static unsigned *times_seen(struct seen *seen, const struct json *j)
{
	static const char *const alike[] = {"name", "choice", "after", NULL};
	u32 hash = html_hash(j, alike);
	unsigned i = 0;

	while (i < seen->count && seen->hash[i] != hash)
		i++;
	if (i == ARRAY_SIZE(seen->hash))
		i--;
	if (i == seen->count) {
		seen->hash[seen->count++] = hash;
		seen->times[i] = 0;
	}
	return &seen->times[i];
}

static bool wanted(const struct json *j, const char *const *names)
{
	int name = json_get(j, 0, "name");

	for (; *names; names++) {
		if (json_is(j, name, *names))
			return true;
	}
	return false;
}

/* `times` like it in one row, or with its address. */
static void site_row(struct page *p, const struct json *j, unsigned times)
{
	int before = json_get(j, 0, "before"), after = json_get(j, 0, "after");

	sink_text(p->out, same_text(j, before, after) ? "<tr>" : "<tr class=changed>");
	cell(p, "site", j, "name", "");
	if (times)
		sink_fmt(p->out, "<td class=n data-l=places>%u</td>", times);
	else
		cell(p, "address", j, "address", " class=\"mono whole\"");
	cell(p, "choice", j, "choice", "");
	cell(p, "because", j, "because", "");
	sink_text(p->out, "<td class=mono data-l=before>");
	html_bytes(p, j, before);
	sink_text(p->out, "</td><td class=mono data-l=after>");
	html_bytes(p, j, after);
	sink_text(p->out, "</td></tr>\n");
}

/* All sites, or those of `names`: like ones in one row, or `each` with its address. */
void html_sites(struct page *p, const char *title, const char *const *names, bool each)
{
	static struct seen seen;
	const struct json *j;
	unsigned at = 0;

	seen.count = 0;
	while ((j = stream_each(p->s, "site", &at)))
		++*times_seen(&seen, j);
	sink_text(p->out, "<table class=cards>");
	html_caption(p, title);
	sink_fmt(p->out, "<thead><tr><th>Site</th>%s<th>Choice</th><th>Because</th><th>Before</th>"
			 "<th>After</th></tr></thead><tbody>\n",
		 each ? "<th>Address</th>" : "<th class=n>Places</th>");
	for (at = 0; (j = stream_each(p->s, "site", &at));) {
		unsigned *times = times_seen(&seen, j);

		if ((names && !wanted(j, names)) || (!each && !*times))
			continue;
		site_row(p, j, each ? 0 : *times);
		*times = 0; /* the like of it has its row */
	}
	sink_text(p->out, "</tbody></table>");
}

/* -------------------------------------------------------------------- listings */

static void listing_row(struct page *p, const struct json *j)
{
	int bytes = json_get(j, 0, "bytes");
	unsigned n = 0;

	sink_text(p->out, "<tr>");
	cell(p, "loop", j, "name", "");
	cell(p, "variant", j, "variant", "");
	cell(p, "instructions", j, "instructions", " class=n");
	sink_text(p->out, "<td class=mono data-l=bytes>");
	for (int e = json_first(j, bytes); e != JSON_NONE; e = json_next(j, e)) {
		if (n++)
			sink_text(p->out, " | ");
		html_bytes(p, j, e);
	}
	sink_text(p->out, "</td></tr>\n");
}

/* The loops as they stand in memory after patching, instruction by instruction. */
void html_listings(struct page *p)
{
	const struct json *j;
	unsigned at = 0, n = 0;

	while ((j = stream_each(p->s, "listing", &at))) {
		if (!n++) {
			sink_text(p->out, "<table class=cards>");
			html_caption(p, "One round as it stands in memory");
			sink_text(p->out, "<thead><tr><th>Loop</th><th>Variant</th><th class=n>Instructions"
					  "</th><th>Bytes</th></tr></thead><tbody>\n");
			stream_load(p->s, at - 1);
		}
		listing_row(p, j);
	}
	if (n)
		sink_text(p->out, "</tbody></table>");
}

/* -------------------------------------------------------------------- tests */

static const char *result_class(const struct json *j)
{
	static const char *const words[] = {"pass", "fail", "skip", "error"};
	int result = json_get(j, 0, "result");

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (json_is(j, result, words[i]))
			return words[i];
	}
	return "error";
}

static void test_row(struct page *p, const struct json *j)
{
	const char *class = result_class(j);
	int reason = json_get(j, 0, "reason");

	sink_fmt(p->out, "<tr class=%s><td class=word>%s</td><td class=\"mono whole\">", class, class);
	sink_markup(p->out, j, json_get(j, 0, "suite"));
	sink_text(p->out, ".");
	sink_markup(p->out, j, json_get(j, 0, "name"));
	sink_text(p->out, "</td><td>");
	sink_markup(p->out, j, json_get(j, 0, "sentence"));
	if (!json_is_null(j, reason)) {
		sink_text(p->out, "<br><span class=soft>");
		sink_markup(p->out, j, reason);
		sink_text(p->out, "</span>");
	}
	sink_text(p->out, "</td>");
	cell(p, "checks", j, "checks", " class=n");
	sink_text(p->out, "</tr>\n");
}

void html_tests(struct page *p)
{
	static const char *const order[] = {"error", "fail", "pass", "skip"};
	const struct json *j;

	sink_text(p->out, "<section id=tests><h2>Tests</h2><table class=cards>");
	html_caption(p, "What was checked");
	sink_text(p->out, "<thead><tr><th>Result</th><th>Test</th><th>What is true when it passes</th>"
			  "<th class=n>Checks</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		unsigned at = 0;

		while ((j = stream_each(p->s, "test", &at))) {
			if (json_is(j, json_get(j, 0, "result"), order[i]))
				test_row(p, j);
		}
	}
	sink_text(p->out, "</tbody></table></section>");
}

/* -------------------------------------------------------------------- measurements */

void html_shared(struct page *p, const struct json *j)
{
	if (json_is_true(j, json_get(j, 0, "shared_core")))
		sink_text(p->out, " <small class=soft>shared core</small>");
}

/* What a measurement is of: the same cells in the table of benches and in the comparison. */
static void bench_cells(struct page *p, const struct json *j)
{
	cell(p, "bench", j, "name", "");
	cell(p, "variant", j, "variant", "");
	sink_text(p->out, "<td>");
	html_params(p, j, json_get(j, 0, "params"));
	html_shared(p, j);
	sink_text(p->out, "</td>");
	cell(p, "unit", j, "unit", "");
}

static void bench_row(struct page *p, const struct json *j)
{
	static const char *const numbers[] = {"p50", "noise", "min", "p95", "max", "samples",
					      "disturbed"};

	sink_text(p->out, "<tr>");
	bench_cells(p, j);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		cell(p, numbers[i], j, numbers[i], " class=n");
	sink_text(p->out, "</tr>\n");
}

void html_benches(struct page *p)
{
	const struct json *j;
	unsigned at = 0;

	sink_text(p->out,
		  "<section id=benches><h2>Measurements</h2><p>Medians of samples that nothing "
		  "disturbed; the noise is the smallest difference between two runs that the bench "
		  "would claim.</p><details><summary>All of them</summary><table class=cards>");
	html_caption(p, "All measurements");
	sink_text(p->out, "<thead><tr><th>Bench</th><th>Variant</th><th>With</th><th>Unit</th>"
			  "<th class=n>Median</th><th class=n>Noise</th><th class=n>Minimum</th>"
			  "<th class=n>95th percentile</th><th class=n>Maximum</th><th class=n>Samples</th>"
			  "<th class=n>Disturbed</th></tr></thead><tbody>\n");
	while ((j = stream_each(p->s, "bench", &at)))
		bench_row(p, j);
	sink_text(p->out, "</tbody></table></details>");
	at = 0;
	while ((j = stream_each(p->s, "bench_skipped", &at))) {
		sink_text(p->out, "<p class=why>Left out: ");
		sink_markup(p->out, j, json_get(j, 0, "name"));
		sink_text(p->out, ", ");
		sink_markup(p->out, j, json_get(j, 0, "reason"));
		sink_text(p->out, "</p>");
	}
	sink_text(p->out, "</section>");
}

/* -------------------------------------------------------------------- comparison */

static void compare_row(struct page *p, const struct json *j)
{
	sink_text(p->out, "<tr>");
	bench_cells(p, j);
	cell(p, "old", j, "old", " class=n");
	cell(p, "new", j, "new", " class=n");
	cell(p, "change, %", j, "change_percent", " class=n");
	cell(p, "noise, %", j, "noise_percent", " class=n");
	cell(p, "verdict", j, "verdict", "");
	sink_text(p->out, "</tr>\n");
}

static void compare_table(struct page *p, const struct json *j)
{
	unsigned at = 0;

	sink_text(p->out, "<table class=cards><caption><b>Before and after</b> old: run ");
	html_value(p, j, json_get(j, 0, "baseline"));
	sink_text(p->out, ", machine <span class=mono>");
	html_value(p, j, json_get(j, 0, "baseline_fingerprint"));
	sink_fmt(p->out, "</span>; new: run %s, machine <span class=mono>%s</span></caption>", p->id,
		 p->fingerprint);
	sink_text(p->out, "<thead><tr><th>Bench</th><th>Variant</th><th>With</th><th>Unit</th>"
			  "<th class=n>Old</th><th class=n>New</th><th class=n>Change, %</th>"
			  "<th class=n>Noise, %</th><th>Verdict</th></tr></thead><tbody>\n");
	while ((j = stream_each(p->s, "compare_row", &at)))
		compare_row(p, j);
	sink_text(p->out, "</tbody></table>");
}

void html_comparison(struct page *p)
{
	const struct json *j = stream_load(p->s, stream_last(p->s, "compare"));

	sink_text(p->out, "<section id=comparison><h2>Comparison</h2>");
	if (!j->count) {
		sink_text(p->out, "<p class=soft>This run was compared with none. "
				  "<code>baseline=</code> names an earlier one.</p></section>");
		return;
	}
	sink_text(p->out, "<p class=lead>");
	sink_markup(p->out, j, json_get(j, 0, "verdict"));
	sink_text(p->out, "</p>");
	if (stream_find(p->s, "compare_row", 0) >= 0)
		compare_table(p, j);
	sink_text(p->out, "</section>");
}

/* -------------------------------------------------------------------- the rest */

void html_features(struct page *p)
{
	const struct json *j = stream_load(p->s, stream_last(p->s, "feature"));
	int features = json_get(j, 0, "features"), because = json_get(j, 0, "because");

	sink_text(p->out, "<details><summary>Features, and what decided them</summary>"
			  "<table class=cards>");
	html_caption(p, "Features");
	sink_text(p->out, "<thead><tr><th>Feature</th><th>Here</th><th>Because</th></tr></thead><tbody>");
	for (int k = json_first(j, features); k != JSON_NONE; k = json_next(j, k)) {
		char name[40];

		json_text(j, k, name, sizeof(name));
		sink_text(p->out, "<tr><td>");
		sink_markup(p->out, j, k);
		sink_text(p->out, json_is_true(j, k + 1) ? "</td><td>yes</td><td>"
							 : "</td><td class=soft>no</td><td>");
		html_value(p, j, json_get(j, because, name));
		sink_text(p->out, "</td></tr>\n");
	}
	sink_text(p->out, "</tbody></table></details>");
}

void html_warnings(struct page *p)
{
	const struct json *j;
	unsigned at = 0, n = 0;

	while ((j = stream_each(p->s, "warn", &at))) {
		sink_text(p->out, n++ ? "<li>" : "<section id=warnings><h2>Warnings</h2><ul><li>");
		sink_markup(p->out, j, json_get(j, 0, "text"));
		sink_text(p->out, "</li>");
	}
	if (n)
		sink_text(p->out, "</ul></section>");
}
