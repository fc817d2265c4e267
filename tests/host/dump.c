/* SPDX-License-Identifier: GPL-2.0-only */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dump.h"

static const struct dump *self(const struct cpu_source *src)
{
	return (const struct dump *)src;
}

static int find(const struct dump *d, u32 leaf, u32 sub)
{
	for (unsigned i = 0; i < d->count; i++) {
		if (d->leaves[i].leaf == leaf && d->leaves[i].sub == sub)
			return (int)i;
	}
	return -1;
}

bool dump_has(const struct dump *d, u32 leaf, u32 sub)
{
	return find(d, leaf, sub) >= 0;
}

static void dump_cpuid(const struct cpu_source *src, u32 leaf, u32 sub, struct cpuid_regs *out)
{
	int at = find(self(src), leaf, sub);

	*out = at < 0 ? (struct cpuid_regs){0} : self(src)->leaves[at].regs;
}

static int dump_rdmsr(const struct cpu_source *src, u32 msr, u64 *value)
{
	struct dump *d = (struct dump *)src;
	unsigned i;

	for (i = 0; i < d->msr_count && d->msrs[i].msr != msr; i++)
		;
	if (i == DUMP_MSRS)
		return -ENODEV;
	if (i == d->msr_count) {
		d->msrs[i].msr = msr;
		d->msr_count++;
	}
	d->msrs[i].asked = true;
	*value = d->msrs[i].value;
	return d->msrs[i].given ? 0 : -ENODEV;
}

bool dump_set_msr(struct dump *d, const char *text)
{
	char *end;
	unsigned long msr = strtoul(text, &end, 0);

	if (end == text || *end != '=' || !end[1] || d->msr_count == DUMP_MSRS)
		return false;
	d->msrs[d->msr_count].msr = (u32)msr;
	d->msrs[d->msr_count].value = strtoull(end + 1, &end, 0);
	d->msrs[d->msr_count++].given = true;
	return !*end;
}

/* -------------------------------------------------------------------- one line */

static const char *hex(const char *at, const char *before, u32 *value)
{
	char *end;
	unsigned long v;

	while (*at == ' ' || *at == '\t')
		at++;
	if (strncmp(at, before, strlen(before)))
		return NULL;
	at += strlen(before);
	if (at[0] != '0' || at[1] != 'x')
		return NULL;
	v = strtoul(at, &end, 16);
	if (end == at + 2 || end > at + 10)
		return NULL;
	*value = (u32)v;
	return end;
}

/* "   0x00000007 0x00: eax=0x… ebx=0x… ecx=0x… edx=0x…"; NULL, or what is wrong. */
static const char *read_leaf(const char *line, u32 *leaf, u32 *sub, struct cpuid_regs *r)
{
	static const char *const names[] = {"eax=", "ebx=", "ecx=", "edx="};
	u32 *values[] = {&r->eax, &r->ebx, &r->ecx, &r->edx};
	static char what[80];

	line = hex(line, "", leaf);
	if (!line)
		return "neither a leaf nor a processor's heading";
	line = hex(line, "", sub);
	if (!line || *line++ != ':')
		return "a leaf without its sub-leaf and colon";
	for (unsigned i = 0; i < 4; i++) {
		line = hex(line, names[i], values[i]);
		if (!line) {
			snprintf(what, sizeof(what), "no value of 1 to 8 hexadecimal digits for %.3s",
				 names[i]);
			return what;
		}
	}
	return line[strspn(line, " \t\r\n")] ? "something follows edx" : NULL;
}

static bool heading(const char *line)
{
	unsigned cpu;
	int n = 0;

	if (sscanf(line, "CPU %u:%n", &cpu, &n) == 1 && n)
		return !line[n + (int)strspn(line + n, " \t\r\n")];
	return !strncmp(line, "CPU:", 4) && !line[4 + strspn(line + 4, " \t\r\n")];
}

/* NULL, or what is wrong with this line. */
static const char *take_line(struct dump *d, const char *line)
{
	struct cpuid_regs regs;
	const char *wrong;
	u32 leaf, sub;

	if (!line[strspn(line, " \t\r\n")])
		return NULL;
	if (heading(line)) {
		d->processors++;
		return NULL;
	}
	wrong = read_leaf(line, &leaf, &sub, &regs);
	if (wrong)
		return wrong;
	if (!d->processors)
		return "a leaf before the first \"CPU 0:\"";
	if (d->processors > 1)
		return NULL; /* the first one speaks for all, as on the machine */
	if (dump_has(d, leaf, sub))
		return "this leaf and sub-leaf stand there already";
	if (d->count == DUMP_LEAVES)
		return "more leaves than any processor has";
	d->leaves[d->count].leaf = leaf;
	d->leaves[d->count].sub = sub;
	d->leaves[d->count++].regs = regs;
	return NULL;
}

int dump_read(struct dump *d, const char *path, char *why, size_t len)
{
	FILE *f = fopen(path, "r");
	unsigned number = 0;
	const char *wrong = NULL;
	char line[256];

	d->source = (struct cpu_source){dump_cpuid, dump_rdmsr, d};
	if (!f) {
		snprintf(why, len, "%s: %s", path, strerror(errno));
		return -1;
	}
	while (!wrong && fgets(line, sizeof(line), f)) {
		number++;
		wrong = strlen(line) == sizeof(line) - 1 ? "a line of more than 254 characters"
							 : take_line(d, line);
	}
	fclose(f);
	if (wrong) {
		line[strcspn(line, "\r\n")] = 0;
		snprintf(why, len, "%s:%u: %s: \"%.60s\"", path, number, wrong, line);
	} else if (!dump_has(d, 0, 0)) {
		wrong = "no leaf 0";
		snprintf(why, len, "%s:%u: the file ends without a leaf 0 of a first processor", path,
			 number);
	}
	return wrong ? -1 : 0;
}

/* -------------------------------------------------------------------- how many */

unsigned dump_threads(const struct dump *d)
{
	unsigned threads = d->processors;
	struct cpuid_regs r;

	for (u32 sub = 0; sub < 8; sub++) {
		d->source.cpuid(&d->source, 0xb, sub, &r);
		if (r.ecx >> 8 & 255)
			threads = max_of(threads, r.ebx & 0xffff);
	}
	d->source.cpuid(&d->source, 0x80000008u, 0, &r);
	threads = max_of(threads, (r.ecx & 255) + 1);
	d->source.cpuid(&d->source, 1, 0, &r);
	if (r.edx >> 28 & 1)
		threads = max_of(threads, r.ebx >> 16 & 255);
	return threads;
}
