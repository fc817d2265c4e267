/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading the stream back: a log's text becomes a list of events, in their order. What is no event
 * (KTAP lines, firmware's own noise on a serial port, a torn line) is passed over. Where a captured
 * log holds several runs, only the last one counts.
 */
#ifndef MCSPIN_REPORT_STREAM_H
#define MCSPIN_REPORT_STREAM_H

#include "json.h"

struct stream_event {
	const char *json; /* the object's text */
	u32 len;
	u16 kind_len;
	const char *kind;
};

struct stream {
	struct stream_event *events;
	unsigned count, room;
	struct json doc; /* the event loaded last */
};

/* False: no memory, or no "run" event in the log. */
bool stream_open(struct stream *s, const char *log, size_t len);
void stream_close(struct stream *s);
/* Index of the first event of `kind` at or behind `from`, or -1. The last one of all: stream_last(). */
int stream_find(const struct stream *s, const char *kind, unsigned from);
int stream_last(const struct stream *s, const char *kind);
/* Parse event `i` into s->doc; returns &s->doc. With i = -1 an empty document. */
const struct json *stream_load(struct stream *s, int i);
/* stream_load() of the next event of `kind`, `*at` moved behind it; NULL at the end. Start at 0. */
const struct json *stream_each(struct stream *s, const char *kind, unsigned *at);

#endif
