/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The forms of a report, each made from the stream's text alone: the running image, `make bench`
 * and the command that rebuilds reports from a captured serial log all call these.
 */
#ifndef MCSPIN_REPORT_VIEWS_H
#define MCSPIN_REPORT_VIEWS_H

#include "../types.h"

/* Where a view's bytes go. */
struct sink {
	void (*write)(struct sink *s, const char *bytes, size_t len);
	char *buf; /* for the buffer sink */
	size_t len, cap;
	bool overflow;
};

/* A sink into one buffer from platform_alloc(), or given. */
void sink_buffer(struct sink *s, char *buf, size_t cap);
void sink_text(struct sink *s, const char *text);
void sink_fmt(struct sink *s, const char *fmt, ...) __printf(2, 3);

/* `log` is a captured stream: lines that are no events are passed over, a torn last line too.
 * Return 0, or -EINVAL when the log holds no run event (or memory is out). */
int view_results_json(const char *log, size_t len, struct sink *out);
int view_junit_xml(const char *log, size_t len, struct sink *out);
int view_report_html(const char *log, size_t len, struct sink *out);
/* Findings, benches and the comparison as text for a terminal: what `make bench` prints. Host only
 * (tests/host/platform_table.c). */
int view_table(const char *log, size_t len, struct sink *out);

/* ------------------------------------------------------------------ shared by the views */

struct stream;
struct json;

/* How the tests of a run came out, and the run itself: "pass", "fail" or "error". A run without
 * its last word, or with a crash in it, is an error whatever it said before. */
struct totals {
	unsigned pass, fail, skip, error;
	bool finished, crashed;
	char result[8];
};
void view_totals(struct stream *s, struct totals *t);
/* Text of a JSON value for HTML and XML: escapes resolved, markup and control characters made
 * harmless. */
void sink_markup(struct sink *s, const struct json *j, int at);
void sink_markup_text(struct sink *s, const char *text, size_t len);

#endif
