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

/* `log` is a captured stream: lines that are no events are passed over, a torn last line too.
 * Return 0, or -EINVAL when the log holds no run event. */
int view_results_json(const char *log, size_t len, struct sink *out);
int view_junit_xml(const char *log, size_t len, struct sink *out);
int view_report_html(const char *log, size_t len, struct sink *out);

#endif
