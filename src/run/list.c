/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * list=1: every test and bench with what it needs. All of them fit one screen of 80 by 25, names with
 * letters; where suite=, test= or bench= choose some, each gets a line with its sentence.
 */
#include "run.h"
#include "options.h"
#include "../report/event.h"

#define COLUMNS 79
#define INDENT	2

static const struct {
	char letter;
	const char *word;
} needs[] = {
	{'r', "ring0"},	 {'n', "native"},  {'a', "arena"},  {'2', "2-cpus"}, {'m', "mce"},
	{'t', "realtime"}, {'p', "patched"}, {'i', "icount"}, {'l', "long"},   {'!', "asked"},
};

static void (*out)(const char *text);
static char row[COLUMNS + 1];
static unsigned at;

static void flush(void)
{
	row[at] = 0;
	if (at)
		out(row);
	at = 0;
}

/* One name into the row; a new row where it does not fit. */
static void name_with_letters(const char *name, u32 bits)
{
	char word[64];
	unsigned n = (unsigned)mc_snprintf(word, sizeof(word), "%s%s", name, bits ? ":" : "");

	for (unsigned i = 0; i < ARRAY_SIZE(needs) && n < sizeof(word) - 1; i++) {
		if (bits & (1u << i))
			word[n++] = needs[i].letter;
	}
	word[n] = 0;
	if (at + 1 + n > COLUMNS) {
		flush();
		while (at < INDENT - 1)
			row[at++] = ' ';
	}
	at += (unsigned)mc_snprintf(row + at, sizeof(row) - at, "%s%s", at ? " " : "", word);
}

static void whole_line(const char *room, const char *name, u32 bits, const char *sentence)
{
	char buf[240];
	size_t n = (size_t)mc_snprintf(buf, sizeof(buf), "%s.%s [", room, name);
	const char *comma = "";

	for (unsigned i = 0; i < ARRAY_SIZE(needs); i++) {
		if (!(bits & (1u << i)))
			continue;
		n += (size_t)mc_snprintf(buf + n, sizeof(buf) - n, "%s%s", comma, needs[i].word);
		comma = ",";
	}
	mc_snprintf(buf + n, sizeof(buf) - n, "] %s", sentence);
	out(buf);
}

static void heading(const char *text)
{
	flush();
	at = (unsigned)mc_snprintf(row, sizeof(row), "%s:", text);
}

static void legend(void)
{
	heading("after a name, what it needs");
	for (unsigned i = 0; i < ARRAY_SIZE(needs); i++) {
		char pair[24];

		mc_snprintf(pair, sizeof(pair), "%c=%s", needs[i].letter, needs[i].word);
		name_with_letters(pair, 0);
	}
}

static void list_tests(unsigned suite, bool chosen)
{
	/* From the end, as they run. */
	for (const struct test *const *p = __stop_mcspin_tests; p-- > __start_mcspin_tests;) {
		const struct test *t = *p;

		if (t->suite != suite || !glob_list_match(options.test, t->name))
			continue;
		if (chosen)
			whole_line(suite_names[suite], t->name, t->needs, t->sentence);
		else
			name_with_letters(t->name, t->needs);
	}
}

static void list_benches(bool chosen)
{
	for (const struct bench *const *p = __start_mcspin_benches; p < __stop_mcspin_benches; p++) {
		const struct bench *b = *p;

		if (chosen && !(*options.bench && glob_list_match(options.bench, b->name)))
			continue;
		if (chosen)
			whole_line("bench", b->name, b->needs, b->sentence);
		else
			name_with_letters(b->name, b->needs);
	}
}

void run_list(void (*line)(const char *text))
{
	bool chosen = *options.suite || *options.test || *options.bench;
	bool tests = !chosen || *options.suite || *options.test;

	out = line;
	if (!chosen)
		legend();
	for (unsigned s = 0; s < NR_SUITES && tests; s++) {
		if (!glob_list_match(options.suite, suite_names[s]))
			continue;
		if (!chosen)
			heading(suite_names[s]);
		list_tests(s, chosen);
	}
	if (!chosen)
		heading("benches");
	list_benches(chosen);
	flush();
	if (!chosen)
		out("list=1 suite=NAME (or test=, bench=) says what each shows");
}
