/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of options and its parser. What README.md and help=1 say comes from here. */
#include "options.h"
#include "../report/event.h"

struct options options;

enum kind {
	KIND_FLAG,    /* 0 or 1 */
	KIND_CHOICE,  /* one of the words in `allowed`; the value is its index, offset by `low` */
	KIND_NUMBER,  /* u32 in low … high */
	KIND_PERCENT, /* as a number, a % may follow */
	KIND_SHIFT,   /* s32: -1 is "not said" */
	KIND_SEED,    /* u64, decimal or 0x hexadecimal */
	KIND_WORD,    /* text; `allowed` lists the words, or is NULL for any */
	KIND_CONSOLE, /* a word of `allowed`, or an I/O port 0x… */
};

struct option {
	const char *key;
	enum kind kind;
	size_t offset, size;
	u64 low, high, preset;
	const char *allowed;
	const char *help;
};

#define AT(f) offsetof(struct options, f), sizeof(((struct options *)0)->f)

static const struct option table[] = {
	{"suite", KIND_WORD, AT(suite), 0, 0, 0, NULL, "suites to run, globs: suite=copy_*,osq"},
	{"test", KIND_WORD, AT(test), 0, 0, 0, NULL, "tests to run, globs: test=nfit*"},
	{"bench", KIND_WORD, AT(bench), 0, 0, 0, NULL, "benches to run, globs; bench=none for none"},
	{"quick", KIND_FLAG, AT(quick), 0, 1, 0, NULL, "leave out what takes long"},
	{"cpus", KIND_NUMBER, AT(cpus), 1, 1024, 0, NULL, "use only so many processors"},
	{"time", KIND_NUMBER, AT(time), 5, 86400, 0, NULL, "seconds for the run; benches share them"},
	{"repeat", KIND_NUMBER, AT(repeat), 1, 100000, 1, NULL, "run the suites so many times"},
	{"seed", KIND_SEED, AT(seed), 0, 0, 0, NULL, "replay what a run chose by chance"},
	{"fragile", KIND_CHOICE, AT(fragile), 0, 0, OPT_AUTO, "auto,on,off",
	 "the copy_mc_fragile key: as Linux decides, or forced"},
	{"dispatcher", KIND_WORD, AT(dispatcher), 0, 0, 0, "shipped,regressed,fixed",
	 "copy_mc_to_user in the default benches"},
	{"baseline", KIND_WORD, AT(baseline), 0, 0, 0, NULL,
	 "an earlier run (id, or path of its results.json) to compare with"},
	{"threshold", KIND_PERCENT, AT(threshold), 1, 1000, 5, NULL, "a change worth a finding"},
	{"compare", KIND_WORD, AT(compare), 0, 0, 0, "machines",
	 "show another machine's run side by side"},
	{"repmov", KIND_CHOICE, AT(repmov), 0, 0, 0, "on,off",
	 "handle the rep movs erratum of Skylake-X and its kin"},
	{"einj", KIND_CHOICE, AT(einj), 0, 0, 0, "off,on",
	 "real memory poison by ACPI EINJ; can crash the machine"},
	{"inject", KIND_FLAG, AT(inject), 0, 1, 0, NULL, "wait for a rig that injects machine checks"},
	{"icount", KIND_SHIFT, AT(icount), 0, 10, 0, NULL, "QEMU runs with -icount shift=N"},
	{"vcpu", KIND_CHOICE, AT(vcpu), 0, 0, VCPU_AUTO, "auto,native,injected",
	 "who answers vcpu_is_preempted()"},
	{"mutant", KIND_WORD, AT(mutant), 0, 0, 0, NULL, "break one thing on purpose; a test must fail"},
	{"console", KIND_CONSOLE, AT(console), 0, 0, 0, "auto,none,screen,com1,com2,com3,com4",
	 "where the stream goes; or 0x3f8"},
	{"exit", KIND_CHOICE, AT(exit), 0, 0, EXIT_SHELL, "shell,reset,off,qemu",
	 "what to do at the end"},
	{"hold", KIND_NUMBER, AT(hold), 0, 86400, 60, NULL,
	 "seconds the verdict stays when no Shell started it"},
	{"list", KIND_FLAG, AT(list), 0, 1, 0, NULL, "list tests and benches, run nothing"},
	{"help", KIND_FLAG, AT(help), 0, 1, 0, NULL, "print this, run nothing"},
};

static bool same(const char *a, size_t alen, const char *b)
{
	return alen == text_length(b) && !memcmp(a, b, alen);
}

/* Index of a word in a comma-separated list, or -1. */
static int word_index(const char *list, const char *word, size_t len)
{
	int index = 0;

	while (*list) {
		size_t n = 0;

		while (list[n] && list[n] != ',')
			n++;
		if (n == len && !memcmp(list, word, n))
			return index;
		list += n + (list[n] == ',');
		index++;
	}
	return -1;
}

static bool number(const char *s, size_t len, u64 *out)
{
	u64 value = 0;
	u64 base = 10;

	if (len > 2 && s[0] == '0' && (s[1] | 0x20) == 'x') {
		base = 16;
		s += 2;
		len -= 2;
	}
	if (!len)
		return false;
	for (; len; s++, len--) {
		u64 digit;

		if (*s >= '0' && *s <= '9')
			digit = *s - '0';
		else if (base == 16 && (*s | 0x20) >= 'a' && (*s | 0x20) <= 'f')
			digit = (*s | 0x20) - 'a' + 10;
		else
			return false;
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*out = value;
	return true;
}

static void store(struct options *o, const struct option *opt, u64 value)
{
	u8 *at = (u8 *)o + opt->offset;

	memcpy(at, &value, opt->size);
}

static void store_text(struct options *o, const struct option *opt, const char *v, size_t len)
{
	char *at = (char *)o + opt->offset;

	memcpy(at, v, len);
	at[len] = 0;
}

/* Store a value, or say in a clause what was wanted instead. */
static const char *assign(struct options *o, const struct option *opt, const char *v, size_t len)
{
	static char wanted[160];
	u64 value;
	int index;

	switch (opt->kind) {
	case KIND_FLAG:
	case KIND_NUMBER:
	case KIND_PERCENT:
	case KIND_SHIFT:
		if (opt->kind == KIND_PERCENT && len && v[len - 1] == '%')
			len--;
		if (!number(v, len, &value) || value < opt->low || value > opt->high) {
			mc_snprintf(wanted, sizeof(wanted), "a whole number from %llu to %llu",
				    (unsigned long long)opt->low, (unsigned long long)opt->high);
			return wanted;
		}
		store(o, opt, value);
		return NULL;
	case KIND_SEED:
		if (!number(v, len, &value))
			return "a number, decimal or 0x hexadecimal, below 2^64";
		store(o, opt, value);
		return NULL;
	case KIND_CONSOLE:
		if (len > 2 && v[0] == '0' && number(v, len, &value) && value && value < 0x10000) {
			store_text(o, opt, v, len);
			return NULL;
		}
		/* fall through */
	case KIND_CHOICE:
	case KIND_WORD:
		index = opt->allowed ? word_index(opt->allowed, v, len) : 0;
		if (index < 0) {
			mc_snprintf(wanted, sizeof(wanted), "one of %s", opt->allowed);
			return wanted;
		}
		if (opt->kind == KIND_CHOICE) {
			store(o, opt, index);
			return NULL;
		}
		if (!len || len >= opt->size) {
			mc_snprintf(wanted, sizeof(wanted), "1 to %zu characters", opt->size - 1);
			return wanted;
		}
		store_text(o, opt, v, len);
		return NULL;
	}
	return "another kind of value";
}

void options_init(struct options *o)
{
	memset(o, 0, sizeof(*o));
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].kind != KIND_WORD && table[i].kind != KIND_CONSOLE)
			store(o, &table[i], table[i].preset);
	}
	o->icount = -1;
	memcpy(o->console, "auto", 5);
	memcpy(o->dispatcher, "shipped", 8);
}

static const struct option *find(const char *key, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (same(key, len, table[i].key))
			return &table[i];
	}
	return NULL;
}

/* Keep the words for the report. */
static void remember(struct options *o, const char *word, size_t len)
{
	size_t have = text_length(o->text);

	if (have + len + 2 + 4 > sizeof(o->text)) { /* " ..." says that there were more */
		if (have && o->text[have - 1] != '.')
			memcpy(o->text + have, " ...", 5);
		return;
	}
	if (have)
		o->text[have++] = ' ';
	memcpy(o->text + have, word, len);
	o->text[have + len] = 0;
}

static int parse_word(struct options *o, const char *word, size_t len, const char *where, char *why,
		      size_t whylen)
{
	const struct option *opt;
	const char *wanted;
	size_t key = 0;

	while (key < len && word[key] != '=')
		key++;
	if (key == len) {
		mc_snprintf(why, whylen, "%s: \"%.*s\" is no key=value word; help=1 lists the keys",
			    where, (int)min_of(len, (size_t)60), word);
		return -EINVAL;
	}
	opt = find(word, key);
	if (!opt) {
		mc_snprintf(why, whylen, "%s: unknown key \"%.*s\" in \"%.*s\"; help=1 lists the keys",
			    where, (int)min_of(key, (size_t)40), word, (int)min_of(len, (size_t)60), word);
		return -EINVAL;
	}
	wanted = assign(o, opt, word + key + 1, len - key - 1);
	if (wanted) {
		mc_snprintf(why, whylen, "%s: %s=%.*s: %s is wanted", where, opt->key,
			    (int)min_of(len - key - 1, (size_t)60), word + key + 1, wanted);
		return -EINVAL;
	}
	remember(o, word, len);
	return 0;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int options_parse(struct options *o, const char *text, const char *where, char *why, size_t whylen)
{
	while (*text) {
		size_t len = 0;
		int err;

		if (*text == '#') {
			while (*text && *text != '\n')
				text++;
			continue;
		}
		if (blank(*text)) {
			text++;
			continue;
		}
		while (text[len] && !blank(text[len]))
			len++;
		err = parse_word(o, text, len, where, why, whylen);
		if (err)
			return err;
		text += len;
	}
	return 0;
}

int options_parse_file(struct options *o, char *bytes, size_t len, const char *where, char *why,
		       size_t whylen)
{
	size_t mark = len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0;

	bytes[len] = 0;
	if (text_length(bytes) == len && (len < 2 || (u8)bytes[0] < 0xfe))
		return options_parse(o, bytes + mark, where, why, whylen);
	mc_snprintf(why, whylen, "%s: this is no plain text (UTF-16?); save it as ASCII or UTF-8", where);
	return -EINVAL;
}

void options_help(void (*line)(const char *text))
{
	char buf[160];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct option *o = &table[i];
		char values[64] = "";

		if (o->kind == KIND_WORD && !o->allowed)
			mc_snprintf(values, sizeof(values), "...");
		else if (o->allowed)
			mc_snprintf(values, sizeof(values), "%s", o->allowed);
		else if (o->kind == KIND_SEED)
			mc_snprintf(values, sizeof(values), "number");
		else
			mc_snprintf(values, sizeof(values), "%llu-%llu", (unsigned long long)o->low,
				    (unsigned long long)o->high);
		mc_snprintf(buf, sizeof(buf), "%s=%s: %s", o->key, values, o->help);
		line(buf);
	}
}

/* On a mismatch the last star takes one more character; an earlier one need never be tried again. */
static bool glob_match(const char *glob, size_t len, const char *name)
{
	const char *end = glob + len, *star = NULL, *retry = NULL;

	while (*name) {
		if (glob < end && *glob == '*') {
			star = ++glob;
			retry = name;
		} else if (glob < end && (*glob == '?' || *glob == *name)) {
			glob++;
			name++;
		} else if (star) {
			glob = star;
			name = ++retry;
		} else {
			return false;
		}
	}
	while (glob < end && *glob == '*')
		glob++;
	return glob == end;
}

bool glob_list_match(const char *globs, const char *name)
{
	if (!*globs)
		return true;
	while (*globs) {
		size_t n = 0;

		while (globs[n] && globs[n] != ',')
			n++;
		if (glob_match(globs, n, name))
			return true;
		globs += n + (globs[n] == ',');
	}
	return false;
}
