/* SPDX-License-Identifier: GPL-2.0-only */
#include "screen.h"
#include "event.h"
#include "json.h"

#define TOKENS	  400
#define BAR_WIDTH 60
#define FINDING_BAR  11
#define FINDING_TEXT 60 /* what is left of a row */
#define TESTS_SHARE 400 /* of 1000: checking; the rest is measuring */

static jsmntok_t tokens[TOKENS];

void screen_init(struct screen *s)
{
	memset(s, 0, sizeof(*s));
	mc_snprintf(s->doing, sizeof(s->doing), "starting");
}

/* -------------------------------------------------------------------- feeding */

/* ASCII only: firmware fonts know little else, and a cell is a byte. */
static void take(const struct json *j, const char *key, char *buf, size_t len)
{
	int at = json_get(j, 0, key);

	if (json_is_null(j, at))
		*buf = 0;
	else
		json_text(j, at, buf, len);
	for (; *buf; buf++) {
		if (*buf < ' ' || *buf > '~')
			*buf = '?';
	}
}

static u32 count_of(const struct json *j, const char *key)
{
	s64 value;

	return json_fixed(j, json_get(j, 0, key), 0, &value) && value > 0 ? (u32)value : 0;
}

static void feed_run(struct screen *s, const struct json *j)
{
	take(j, "id", s->id, sizeof(s->id));
	take(j, "version", s->version, sizeof(s->version));
	s->budget_s = count_of(j, "budget_s");
}

static void feed_machine(struct screen *s, const struct json *j)
{
	take(j, "brand", s->brand, sizeof(s->brand));
	s->cpus = count_of(j, "cpus");
	s->emulated = json_is_true(j, json_get(j, 0, "emulated"));
	json_text(j, json_get(j, json_get(j, 0, "hypervisor"), "name"), s->hypervisor,
		  sizeof(s->hypervisor));
}

static void feed_plan(struct screen *s, const struct json *j)
{
	s->tests = count_of(j, "tests");
	s->benches = count_of(j, "benches");
}

static void feed_test(struct screen *s, const struct json *j)
{
	int result = json_get(j, 0, "result");
	char suite[40], name[60], word[8];

	take(j, "suite", suite, sizeof(suite));
	take(j, "name", name, sizeof(name));
	take(j, "result", word, sizeof(word));
	s->tests_done++;
	s->pass += json_is(j, result, "pass");
	s->fail += json_is(j, result, "fail");
	s->skip += json_is(j, result, "skip");
	s->error += json_is(j, result, "error");
	mc_snprintf(s->doing, sizeof(s->doing), "check   %s", suite);
	mc_snprintf(s->last, sizeof(s->last), "%s.%s: %s", suite, name, word);
	if (json_is(j, result, "fail") || json_is(j, result, "error")) {
		char reason[100];

		take(j, "reason", reason, sizeof(reason));
		mc_snprintf(s->warning, sizeof(s->warning), "%s.%s: %s", suite, name, reason);
	}
}

static void feed_bench(struct screen *s, const struct json *j)
{
	char name[48];

	take(j, "name", name, sizeof(name));
	s->benches_done++;
	mc_snprintf(s->doing, sizeof(s->doing), "measure %s", name);
	s->last[0] = 0;
}

static void feed_skipped(struct screen *s, const struct json *j)
{
	s->benches_done++;
}

/* Only what has a number is drawn. */
static void feed_finding(struct screen *s, const struct json *j)
{
	struct screen_finding *f = &s->findings[s->found];
	s64 ratio;

	if (s->found == ARRAY_SIZE(s->findings) ||
	    !json_fixed(j, json_get(j, 0, "ratio"), 4, &ratio) || ratio <= 0)
		return;
	f->ratio = ratio;
	take(j, "name", f->name, sizeof(f->name));
	take(j, "text", f->text, sizeof(f->text));
	s->found++;
}

static void feed_warn(struct screen *s, const struct json *j)
{
	take(j, "text", s->warning, sizeof(s->warning));
	if (!memcmp(s->warning, "no volume", 9))
		s->no_volume = true;
}

static void feed_compare(struct screen *s, const struct json *j)
{
	take(j, "verdict", s->verdict, sizeof(s->verdict));
}

static void feed_crash(struct screen *s, const struct json *j)
{
	s->crashed = true;
	mc_snprintf(s->result, sizeof(s->result), "error");
}

static void feed_done(struct screen *s, const struct json *j)
{
	if (!s->crashed)
		take(j, "result", s->result, sizeof(s->result));
}

void screen_feed(struct screen *s, const char *line, size_t len)
{
	static const struct {
		const char *kind;
		void (*feed)(struct screen *s, const struct json *j);
	} feeds[] = {
		{"run", feed_run},	     {"machine", feed_machine},
		{"plan", feed_plan},	     {"test", feed_test},
		{"bench_start", feed_bench}, {"bench_skipped", feed_skipped},
		{"finding", feed_finding},   {"warn", feed_warn},
		{"compare", feed_compare},   {"crash", feed_crash},
		{"done", feed_done},
	};
	struct json j = {.tok = tokens, .room = TOKENS};
	int kind;

	if (len < 10 || memcmp(line, "# mcspin {", 10) || !json_parse(&j, line + 9, len - 9))
		return;
	kind = json_get(&j, 0, "event");
	for (size_t i = 0; i < ARRAY_SIZE(feeds); i++) {
		if (json_is(&j, kind, feeds[i].kind))
			feeds[i].feed(s, &j);
	}
}

/* -------------------------------------------------------------------- drawing */

static char (*row)[SCREEN_COLUMNS + 1]; /* the next row to fill */

static void put(char *at, size_t room, const char *text)
{
	for (; room && *text; room--)
		*at++ = *text++;
}

static void line(const char *fmt, ...) __printf(1, 2);
static void line(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	mc_vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put(*row, SCREEN_COLUMNS, text);
	row++;
}

static void bar(char *buf, u64 part, u64 of, unsigned width, char full, char empty)
{
	u64 filled = of ? min_of(part * width / of, (u64)width) : 0;

	for (unsigned i = 0; i < width; i++)
		buf[i] = i < filled ? full : empty;
	buf[width] = 0;
}

/* Tests count one by one, a running bench not yet. Where nothing is planned, the clock decides. */
static u32 permille(struct screen *s, u32 elapsed_s)
{
	u32 now = 0;

	if (*s->result)
		return 1000;
	if (s->tests + s->benches) {
		u32 tests = s->benches ? TESTS_SHARE : 1000;
		u32 benches = s->benches_done ? s->benches_done - 1 : 0;

		now = s->tests ? min_of(s->tests_done, s->tests) * tests / s->tests : tests;
		if (s->benches)
			now += min_of(benches, s->benches) * (1000 - tests) / s->benches;
	} else if (s->budget_s) {
		now = elapsed_s * 1000 / s->budget_s;
	}
	s->drawn_permille = max_of(s->drawn_permille, min_of(now, 990u));
	return s->drawn_permille;
}

static void draw_progress(struct screen *s, u32 elapsed_s)
{
	u32 done = permille(s, elapsed_s);
	u32 left = done > 50 ? (u32)((u64)elapsed_s * (1000 - done) / done) : s->budget_s;
	char text[BAR_WIDTH + 1];

	bar(text, done, 1000, BAR_WIDTH, '#', '.');
	line(" [%s] %3u %%", text, done / 10);
	if (*s->result)
		line(" %u s", elapsed_s);
	else
		line(" %u s gone, about %u s left                      ESC stops, reports are kept",
		     elapsed_s, left);
}

/* What changed since the baseline, then the two exhibits, then the rest as there is room. */
static const struct {
	const char *title;
	const char *names[2]; /* how a finding's name begins */
} parts[] = {
	{"Against the baseline", {"regression", "improvement"}},
	{"The copy that ran twice", {"copies_per_call", "dispatcher_time_ratio"}},
	{"The argument that nobody needed", {"spin_instructions", "spin_argument"}},
	{"Measured as well", {"", ""}},
};

static bool begins(const char *text, const char *with)
{
	while (*with && *text == *with)
		text++, with++;
	return !*with;
}

static unsigned part_of(const struct screen_finding *f)
{
	unsigned i = 0;

	while (!begins(f->name, parts[i].names[0]) && !begins(f->name, parts[i].names[1]))
		i++;
	return i;
}

/* The text ends at a word. */
static void draw_finding(const struct screen_finding *f, s64 most)
{
	char text[sizeof(f->text)], picture[FINDING_BAR + 1], ratio[RATIO_TEXT];
	unsigned len = mc_snprintf(text, sizeof(text), "%s", f->text);

	if (len > FINDING_TEXT) {
		for (len = FINDING_TEXT - 2; len && text[len] != ' ';)
			len--;
		mc_snprintf(text + len, 3, "..");
	}
	bar(picture, f->ratio, most, FINDING_BAR, '=', ' ');
	line(" %6s %s %s", ratio_text(ratio, f->ratio, 50), picture, text);
}

/* Bars: what was counted or timed against the greatest of its name. */
static void draw_findings(const struct screen *s, const char (*end)[SCREEN_COLUMNS + 1])
{
	for (unsigned p = 0; p < ARRAY_SIZE(parts); p++) {
		bool titled = false;

		for (u32 i = 0; i < s->found && row + !titled < end; i++) {
			const struct screen_finding *f = &s->findings[i];
			s64 most = f->ratio;

			if (part_of(f) != p)
				continue;
			if (!titled)
				line(" %s", parts[p].title);
			titled = true;
			for (u32 k = 0; k < s->found; k++) {
				if (!memcmp(s->findings[k].name, f->name, sizeof(f->name)))
					most = max_of(most, s->findings[k].ratio);
			}
			draw_finding(f, most);
		}
	}
}

static void draw_verdict(const struct screen *s)
{
	if (!*s->result) {
		line(" %s", s->doing);
		line(" %s", s->last);
		return;
	}
	line(" %s", s->crashed		     ? "CRASHED: the report is on every line that still works"
		    : s->result[0] == 'p' ? "PASS"
		    : s->result[0] == 'f' ? "FAIL"
					     : "ERROR");
	if (s->no_volume)
		line(" reports: on the serial line only, no volume could be written");
	else
		line(" reports: \\mcspin\\%s\\report.html (results.json, junit.xml, log)", s->id);
}

void screen_draw(struct screen *s, u32 elapsed_s, char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1])
{
	for (unsigned i = 0; i < SCREEN_ROWS; i++) {
		memset(rows[i], ' ', SCREEN_COLUMNS);
		rows[i][SCREEN_COLUMNS] = 0;
	}
	row = rows;
	line(" mcspin %s    run %s", s->version, s->id);
	line(" %s, %u processor%s, hypervisor: %s", *s->brand ? s->brand : "(machine not known yet)",
	     s->cpus, s->cpus == 1 ? "" : "s", s->hypervisor);
	line("%s", s->emulated ? " EMULATION: times prove nothing about speed" : "");
	row++;
	draw_progress(s, elapsed_s);
	row++;
	draw_verdict(s);
	row++;
	line(" tests: %u passed, %u failed, %u skipped, %u broken", s->pass, s->fail, s->skip, s->error);
	line("%s%s", *s->warning ? " ! " : "", s->warning);
	line("%s%s", *s->verdict ? " compared: " : "", s->verdict);
	row++;
	draw_findings(s, rows + SCREEN_ROWS);
}
