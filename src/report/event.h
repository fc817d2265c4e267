/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one stream of events. Every fact that a report shows leaves the run as one line
 * `# mcspin {"event": "<kind>", …}` among KTAP lines; all other forms (results.json, junit.xml,
 * report.html, the screen) are made from these lines alone (views.h), so none can hold a number
 * that the stream lacks.
 *
 *	event_begin("site");
 *	event_str("name", "stac");
 *	event_hex("before", bytes, 3);
 *	event_end();
 *
 * Control processor only. Lines are at most EVENT_MAX bytes; what does not fit is a caught error
 * that replaces the event, never a torn line.
 */
#ifndef MCSPIN_REPORT_EVENT_H
#define MCSPIN_REPORT_EVENT_H

#include "../types.h"

#define EVENT_MAX 8192

void event_begin(const char *kind);
void event_str(const char *key, const char *value); /* NULL becomes null */
void event_fmt(const char *key, const char *fmt, ...) __printf(2, 3);
void event_u64(const char *key, u64 value);
void event_s64(const char *key, s64 value);
void event_bool(const char *key, bool value);
void event_null(const char *key);
/* value / 10^decimals, as a JSON number: event_fixed("ratio", 20000, 4) is 2.0000. */
void event_fixed(const char *key, s64 value, unsigned decimals);
void event_hex(const char *key, const void *bytes, size_t len);
void event_hex64(const char *key, u64 value); /* "0x…" string: JSON numbers lose 64-bit values */
void event_object(const char *key);	      /* … until event_close() */
void event_array(const char *key);	      /* elements take a NULL key */
void event_close(void);
void event_end(void);

/* A KTAP line of its own: "TAP version 14", "ok 1 - …", "    # …". No newline in it. */
void ktap_line(const char *fmt, ...) __printf(1, 2);

/* A warning that belongs to no test: a console that fails, a table that is damaged. */
void event_warn(const char *fmt, ...) __printf(1, 2);
/* Emits a beacon when 5 s have passed since the last line, so that none is 10 s late. Called between
 * tests and benches, and within long ones. */
void event_beacon(const char *where);

/* Everything streamed so far, for the views and the crash report. */
const char *event_log(size_t *len);
/* What of it is not there, one sentence; NULL: nothing is missing. */
const char *event_lost(void);

/*
 * A finding: something that the run concludes. `evidence` are "bench:…", "test:…", "site:…"
 * references or plain facts, NULL-terminated. `ratio` is value / 10^decimals; pass has_ratio
 * false where there is none.
 */
void event_finding(const char *name, const char *text, bool has_ratio, s64 ratio,
		   unsigned decimals, const char *const *evidence);

/* Length of the valid UTF-8 sequence of two bytes or more at `s`, or 0. */
unsigned utf8_length(const u8 *s);

/* Formatting without a C library: %s %c %d %i %u %x %X %p %% with l, ll, z, width, 0, -, and .N
 * for strings. Returns the length it would have had. Debian's C libraries are built with a red
 * zone and SSE, neither of which survives a firmware interrupt on the same stack. */
int mc_snprintf(char *buf, size_t len, const char *fmt, ...) __printf(3, 4);
int mc_vsnprintf(char *buf, size_t len, const char *fmt, va_list ap);
/* A ratio in 1/10000 with two decimals. `add` is what rounds the others: 50 to the nearest, 99 up
 * (for an "at most"), 0 down (for an "at least"). */
#define RATIO_TEXT 24
const char *ratio_text(char buf[RATIO_TEXT], s64 ratio, unsigned add);

#endif
