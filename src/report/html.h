/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files that make report.html share. One page, no script, nothing fetched. */
#ifndef MCSPIN_REPORT_HTML_H
#define MCSPIN_REPORT_HTML_H

#include "stream.h"
#include "views.h"

struct page {
	struct sink *out;
	struct stream *s;
	struct totals totals;
	char id[48], fingerprint[40]; /* safe as markup: checked when read */
	bool emulated;
	unsigned charts;
};

/* A number as the stream has it, zeros behind the point left out; other values as text. */
void html_value(struct page *p, const struct json *j, int at);
/* Says so where a measurement was taken with a neighbour on the core. */
void html_shared(struct page *p, const struct json *j);
/* 256, 4 KiB, 2 MiB. */
void html_length(char *buf, size_t len, s64 bytes);
/* Events that are alike in these fields (NULL ends them) have one hash. */
u32 html_hash(const struct json *j, const char *const *keys);
/* {"length": 4096, "caches": "hot"} as "length 4 KiB · caches hot". */
void html_params(struct page *p, const struct json *j, int at);
/* Every table says whose it is: `title`, the run and the machine. */
void html_caption(struct page *p, const char *title);
/* "0f01ca" as "0f 01 ca". */
void html_bytes(struct page *p, const struct json *j, int at);

/* html_charts.c: each draws nothing where the run has no such bench. */
/* Lines: field `y` of the bench over its number `x`, both axes logarithmic; `what` NULL, or only
 * events whose parameter "what" it is. */
bool html_lines(struct page *p, const char *bench, const char *x, const char *y, const char *what,
		const char *title);
/* Bars: medians of the bench's variants, one group for each set of parameters. */
bool html_bars(struct page *p, const char *bench, const char *title);
/* A bar for each finding of this name. */
bool html_finding_bars(struct page *p, const char *name, const char *title);
/* One bar: value of most, both in the same unit; low and high of a whisker may be 0, and so may
 * the limit, which stands across the bar. */
void html_bar(struct page *p, s64 value, s64 low, s64 high, s64 limit, s64 most);
/* log2(x) in 1/1000, x > 0. */
u32 log2_milli(u64 x);

/* html_tables.c */
void html_sites(struct page *p, const char *title, const char *const *names, bool each);
void html_listings(struct page *p);
void html_tests(struct page *p);
void html_benches(struct page *p);
void html_comparison(struct page *p);
void html_features(struct page *p);
void html_warnings(struct page *p);

#endif
