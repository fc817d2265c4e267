/* SPDX-License-Identifier: GPL-2.0-only */
/* report.html: the verdict first, then the machine, the two exhibits, and all the rest. */
#include "html.h"
#include "event.h"
#include "html_style.h"

/* -------------------------------------------------------------------- small parts */

void html_value(struct page *p, const struct json *j, int at)
{
	s64 unused;
	size_t len, keep;
	const char *text = json_raw(j, at, &len);
	bool point = false;

	if (json_is_null(j, at) || json_is(j, at, "")) {
		sink_text(p->out, json_is_null(j, at) ? "unknown" : "none given");
		return;
	}
	if (!json_fixed(j, at, 0, &unused)) {
		sink_markup(p->out, j, at);
		return;
	}
	for (keep = 0; keep < len; keep++)
		point |= text[keep] == '.';
	while (point && keep && text[keep - 1] == '0')
		keep--;
	if (point && keep && text[keep - 1] == '.')
		keep--;
	p->out->write(p->out, text, keep);
}

void html_length(char *buf, size_t len, s64 bytes)
{
	unsigned shift = bytes & 0x3ff || !bytes ? 0 : bytes & 0xfffff ? 10 : 20;

	mc_snprintf(buf, len, "%lld%s", (long long)(bytes >> shift),
		    shift == 20 ? " MiB" : shift ? " KiB" : "");
}

u32 html_hash(const struct json *j, const char *const *keys)
{
	u32 hash = 0x811c9dc5;

	for (; *keys; keys++) {
		size_t len;
		const char *text = json_raw(j, json_get(j, 0, *keys), &len);

		while (len--)
			hash = (hash ^ (u8)*text++) * 0x01000193;
	}
	return hash;
}

void html_params(struct page *p, const struct json *j, int at)
{
	unsigned n = 0;
	char text[24];
	s64 bytes;

	for (int k = json_first(j, at); k != JSON_NONE; k = json_next(j, k)) {
		if (n++)
			sink_text(p->out, " \xc2\xb7 ");
		sink_markup(p->out, j, k);
		sink_text(p->out, " ");
		if (json_is(j, k, "length") && json_fixed(j, k + 1, 0, &bytes)) {
			html_length(text, sizeof(text), bytes);
			sink_text(p->out, text);
		} else {
			html_value(p, j, k + 1);
		}
	}
}

void html_caption(struct page *p, const char *title)
{
	sink_fmt(p->out, "<caption><b>%s</b> run %s, machine <span class=mono>%s</span>%s</caption>",
		 title, p->id, p->fingerprint, p->emulated ? ", times are emulation" : "");
}

/* The test's own sites have hundreds, nearly all of them filler; results.json has them whole. */
#define BYTES_SHOWN 24

void html_bytes(struct page *p, const struct json *j, int at)
{
	size_t len;
	const char *text = json_raw(j, at, &len);

	for (size_t i = 0; i + 1 < len; i += 2) {
		if (i)
			sink_text(p->out, " ");
		if (i == 2 * BYTES_SHOWN && len > 2 * BYTES_SHOWN + 16) {
			sink_fmt(p->out, "\xe2\x80\xa6 %u in all", (unsigned)(len / 2));
			return;
		}
		sink_markup_text(p->out, text + i, 2);
	}
}

static const struct json *machine(struct page *p)
{
	return stream_load(p->s, stream_last(p->s, "machine"));
}

static const struct json *run(struct page *p)
{
	return stream_load(p->s, stream_find(p->s, "run", 0));
}

/* Ids go into many places: only letters that need no escaping. */
static void take_word(const struct json *j, const char *key, char *buf, size_t len)
{
	json_text(j, json_get(j, 0, key), buf, len);
	for (; *buf; buf++) {
		if (*buf < '-' || *buf > 'z' || *buf == '<' || *buf == '>')
			*buf = '_';
	}
}

/* -------------------------------------------------------------------- verdict */

static const char *verdict_word(const struct totals *t)
{
	if (t->crashed)
		return "Crashed";
	if (!t->finished)
		return "Not finished";
	return *t->result == 'p' ? "Pass" : *t->result == 'f' ? "Fail" : "Error";
}

static void verdict(struct page *p)
{
	const struct totals *t = &p->totals;
	const struct json *j;

	sink_fmt(p->out, "<header class=%s><div class=top><div class=over><b>mcspin</b><span>run %s",
		 t->result, p->id);
	sink_fmt(p->out, "</span><span>machine <span class=mono>%s</span></span><span>",
		 p->fingerprint);
	j = run(p);
	html_value(p, j, json_get(j, 0, "started"));
	sink_fmt(p->out, "</span></div><h1><b>%s</b></h1><p class=lead>", verdict_word(t));
	j = machine(p);
	html_value(p, j, json_get(j, 0, "brand"));
	sink_text(p->out, ", processors: ");
	html_value(p, j, json_get(j, 0, "cpus"));
	sink_fmt(p->out, ". %u tests passed, %u failed, %u skipped, %u broke", t->pass, t->fail,
		 t->skip, t->error);
	j = stream_load(p->s, stream_last(p->s, "done"));
	if (json_get(j, 0, "seconds") != JSON_NONE) {
		sink_text(p->out, ", in ");
		html_value(p, j, json_get(j, 0, "seconds"));
		sink_text(p->out, " s");
	}
	sink_text(p->out, ".</p></div>");
	if (p->emulated)
		sink_text(p->out, "<p class=note><b>Emulation.</b> This run's times are emulation and "
				  "prove nothing about speed. What it decided, patched, counted and "
				  "tested stands.</p>");
	if (!t->finished)
		sink_text(p->out, "<p class=note>The stream ends without its last word: the run was "
				  "cut off or crashed.</p>");
}

static void crash_notes(struct page *p)
{
	const struct json *j;
	unsigned at = 0;

	while ((j = stream_each(p->s, "crash", &at))) {
		sink_text(p->out, "<p class=note><b>Crash.</b> ");
		html_params(p, j, 0);
		sink_text(p->out, "</p>");
	}
}

static void navigation(struct page *p)
{
	sink_text(p->out, "<nav aria-label=Sections><a href=#found>Findings</a><a href=#machine>Machine"
			  "</a><a href=#copy>Copying</a><a href=#lock>Locking</a><a href=#comparison>"
			  "Comparison</a><a href=#sites>Sites</a><a href=#tests>Tests</a>"
			  "<a href=#benches>Measurements</a></nav></header><main>");
}

/* -------------------------------------------------------------------- findings */

static void evidence(struct page *p, const struct json *j)
{
	int list = json_get(j, 0, "evidence");
	unsigned n = 0;

	for (int e = json_first(j, list); e != JSON_NONE; e = json_next(j, e)) {
		sink_text(p->out, n++ ? "; " : "<p class=why>Evidence: ");
		sink_markup(p->out, j, e);
	}
	if (n)
		sink_text(p->out, "</p>");
}

static void one_finding(struct page *p, const struct json *j, bool first)
{
	int ratio = json_get(j, 0, "ratio");
	size_t len;
	const char *digits = json_raw(j, ratio, &len);

	if (!json_is_null(j, ratio)) {
		sink_text(p->out, "<div class=num>");
		p->out->write(p->out, digits, len);
		if (first) {
			sink_text(p->out, " <small>");
			sink_markup(p->out, j, json_get(j, 0, "name"));
			sink_text(p->out, "</small>");
		}
		sink_text(p->out, "</div>");
	}
	sink_markup(p->out, j, json_get(j, 0, "text"));
}

/* Those with one name and one evidence share a card. */
static void findings(struct page *p)
{
	static const char *const alike[] = {"name", "evidence", NULL};
	const struct json *j;
	unsigned last = 0;
	u32 card = 0;

	sink_text(p->out, "<section id=found><h2>What this run concludes</h2><ul class=found>");
	/* What has a number first. */
	for (unsigned pass = 0; pass < 2; pass++) {
		unsigned at = 0;

		while ((j = stream_each(p->s, "finding", &at))) {
			u32 here = html_hash(j, alike);

			if (json_is_null(j, json_get(j, 0, "ratio")) != pass)
				continue;
			if (card && here != card) {
				evidence(p, stream_load(p->s, last));
				sink_text(p->out, "</li>");
				j = stream_load(p->s, at - 1);
			}
			if (here != card)
				sink_text(p->out, "<li>");
			one_finding(p, j, here != card);
			card = here;
			last = at - 1;
		}
	}
	if (card)
		evidence(p, stream_load(p->s, last));
	else
		sink_text(p->out, "<li>Nothing beyond the tests.");
	sink_text(p->out, "</li></ul></section>");
}

/* -------------------------------------------------------------------- machine */

static void fact(struct page *p, const char *name, const struct json *j, int at)
{
	sink_fmt(p->out, "<div><dt>%s</dt><dd>", name);
	html_value(p, j, at);
	sink_text(p->out, "</dd></div>");
}

static void machine_facts(struct page *p)
{
	static const struct {
		const char *name, *key, *inner;
	} facts[] = {
		{"Processor", "brand", NULL},	 {"Vendor", "vendor", NULL},
		{"Family", "family", NULL},	 {"Model", "model", NULL},
		{"Stepping", "stepping", NULL},	 {"Microcode", "microcode", NULL},
		{"Processors", "cpus", NULL},	 {"Memory, MiB", "memory_mib", NULL},
		{"Hypervisor", "hypervisor", "name"},
		{"Hypervisor's signature", "hypervisor", "signature"},
		{"Firmware", "firmware", NULL},	 {"Product", "product", NULL},
		{"TSC, Hz", "tsc", "hz"},	 {"TSC by", "tsc", "source"},
		{"Checked, Hz", "tsc", "second_hz"}, {"Checked by", "tsc", "second_source"},
		{"TSC invariant", "tsc", "invariant"},
		{"TSC skew, ticks", "tsc", "skew"}, {"Skew known to, ticks", "tsc", "skew_error"},
		{"Fingerprint", "fingerprint", NULL},
	};
	const struct json *j = machine(p);

	sink_text(p->out, "<section id=machine><h2>The machine</h2><dl class=facts>");
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
		int at = json_get(j, 0, facts[i].key);

		fact(p, facts[i].name, j, facts[i].inner ? json_get(j, at, facts[i].inner) : at);
	}
	j = run(p);
	fact(p, "Options", j, json_get(j, 0, "options"));
	fact(p, "mcspin", j, json_get(j, 0, "version"));
	sink_text(p->out, "</dl>");
	html_features(p);
	sink_text(p->out, "</section>");
}

/* -------------------------------------------------------------------- exhibits */

static void event_line(struct page *p, const char *kind, const char *title)
{
	const struct json *j = stream_load(p->s, stream_last(p->s, kind));
	unsigned n = 0;

	if (!j->count)
		return;
	sink_fmt(p->out, "<p class=why>%s: ", title);
	for (int k = json_first(j, 0); k != JSON_NONE; k = json_next(j, k)) {
		if (json_is(j, k, "event") || json_is_null(j, k + 1))
			continue;
		sink_text(p->out, n++ ? ", " : "");
		sink_markup(p->out, j, k);
		sink_text(p->out, ": ");
		html_value(p, j, k + 1);
	}
	sink_text(p->out, "</p>");
}

static void copying(struct page *p)
{
	static const char *const proof[] = {"copy_mc_generic", "copy_user_generic", "memcpy", "stac",
					    NULL};

	sink_text(p->out,
		  "<section id=copy><h2>Exhibit one: the copy that ran twice</h2>"
		  "<p>A dispatcher tried the careful copy and, for want of an <code>else</code>, ran "
		  "the plain one as well. Watchpoints on the bytes count how often each call "
		  "touches them; the times stand beside the counts.</p>");
	html_finding_bars(p, "copies_per_call", "How often one call copies each byte");
	html_bars(p, "dispatcher_time", "Time of one call");
	event_line(p, "fragile_key", "The fragile key as this platform would have it");
	html_sites(p, "Proof in the text", proof, false);
	sink_text(p->out, "<h3>Speed over length</h3><div class=two>");
	html_lines(p, "copy_hot", "length", "bytes_per_tick", NULL, "Bytes per tick, in the caches");
	html_lines(p, "copy_cold", "length", "bytes_per_tick", NULL, "Bytes per tick, caches flushed");
	html_lines(p, "copy_hot", "length", "bytes_per_instruction", NULL, "Bytes per instruction");
	sink_text(p->out, "</div></section>");
}

static void locking(struct page *p)
{
	static const char *const proof[] = {"vcpu_argument", "vcpu_is_preempted", NULL};

	sink_text(p->out,
		  "<section id=lock><h2>Exhibit two: the argument nobody reads</h2>"
		  "<p>Without a hypervisor <code>vcpu_is_preempted()</code> is patched to a constant, "
		  "yet its argument, a number on another processor's cache line, may still be "
		  "loaded on every spin. The cures stand side by side.</p>");
	html_finding_bars(p, "spin_instructions", "Instructions of one spin");
	html_bars(p, "spin", "One spin");
	html_listings(p);
	html_bars(p, "lock_pair", "Lock and unlock, nobody else there");
	html_bars(p, "lock_handoff_path", "The way of a hand-off, on one processor");
	sink_text(p->out, "<div class=two>");
	html_lines(p, "contest", "cpus", "p50", "throughput", "Acquisitions per second");
	sink_text(p->out, "</div>");
	html_bars(p, "contest", "Contests");
	event_line(p, "vcpu_is_preempted", "What answers here");
	html_sites(p, "Proof in the text", proof, false);
	sink_text(p->out, "</section>");
}

/* -------------------------------------------------------------------- the page */

static void to_inert(struct sink *s, const char *bytes, size_t len)
{
	struct sink *out = (struct sink *)s->buf;

	for (; len; bytes++, len--) {
		if (*bytes == '<') /* nothing in the data may end its element */
			sink_text(out, "\\u003c");
		else
			out->write(out, bytes, 1);
	}
}

static void raw_data(struct page *p, const char *log, size_t len)
{
	struct sink inert = {.write = to_inert, .buf = (char *)p->out};

	sink_text(p->out, "<script type=\"application/json\" id=results>");
	view_results_json(log, len, &inert);
	sink_text(p->out, "</script>");
}

static void head(struct page *p)
{
	const struct json *j = machine(p);

	sink_text(p->out, "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
			  "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
			  "<link rel=icon href=\"data:,\"><title>");
	sink_fmt(p->out, "%s%s: mcspin %s, ", p->emulated ? "(emulation) " : "",
		 verdict_word(&p->totals), p->id);
	html_value(p, j, json_get(j, 0, "brand"));
	sink_text(p->out, "</title><style>");
	sink_text(p->out, style);
	sink_text(p->out, "</style></head><body>\n");
}

static void body(struct page *p)
{
	verdict(p);
	crash_notes(p);
	navigation(p);
	findings(p);
	machine_facts(p);
	copying(p);
	locking(p);
	html_comparison(p);
	sink_text(p->out, "<section id=sites><h2>Sites</h2><p>Every place in the text that start-up may "
			  "rewrite, as it was and as it was read back from memory.</p>");
	html_sites(p, "What was decided", NULL, false);
	sink_text(p->out, "<details><summary>Each of them, by address</summary>");
	html_sites(p, "All sites", NULL, true);
	sink_text(p->out, "</details></section>");
	html_tests(p);
	html_benches(p);
	html_warnings(p);
	sink_fmt(p->out, "</main><footer><p>Made by mcspin from the run's own stream. Every number here "
			 "is in <code>results.json</code>, which is embedded in this file as the element "
			 "<code>results</code>. Run %s, machine %s.</p></footer>\n",
		 p->id, p->fingerprint);
}

int view_report_html(const char *log, size_t len, struct sink *out)
{
	static struct stream s;
	static struct page p;
	const struct json *j;

	if (!stream_open(&s, log, len))
		return -EINVAL;
	p = (struct page){.out = out, .s = &s};
	view_totals(&s, &p.totals);
	take_word(run(&p), "id", p.id, sizeof(p.id));
	j = machine(&p);
	take_word(j, "fingerprint", p.fingerprint, sizeof(p.fingerprint));
	p.emulated = json_is_true(j, json_get(j, 0, "emulated"));
	head(&p);
	body(&p);
	raw_data(&p, log, len);
	sink_text(out, "</body></html>\n");
	stream_close(&s);
	return 0;
}
