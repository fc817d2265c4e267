/* SPDX-License-Identifier: GPL-2.0-only */
#include "stream.h"
#include "event.h"
#include "../platform.h"

#define TOKENS (EVENT_MAX / 2) /* a value takes two bytes at least */

static const char mark[] = "# mcspin {";
#define MARK_LEN (sizeof(mark) - 1)

/* The object of an event line, wherever in the line it begins: firmware may have left something
 * in front of it. */
static const char *find_event(const char *line, const char *end)
{
	for (; line + MARK_LEN <= end; line++) {
		if (*line == '#' && !memcmp(line, mark, MARK_LEN))
			return line + MARK_LEN - 1;
	}
	return NULL;
}

static bool is_kind(const struct stream_event *e, const char *kind)
{
	for (unsigned i = 0; i < e->kind_len; i++) {
		if (kind[i] != e->kind[i] || !kind[i])
			return false;
	}
	return !kind[e->kind_len];
}

/* jsmn takes any byte between two quotes; the forms must not. */
static bool clean(const char *at, const char *end)
{
	while (at < end) {
		u8 c = *at;
		unsigned n = c < 0x80 ? 1 : 0;
		u8 tail[4] = {0};

		if (c < 0x20 || c == 0x7f)
			return false;
		if (!n) {
			memcpy(tail, at, min_of(end - at, (s64)sizeof(tail)));
			n = utf8_length(tail);
		}
		if (!n)
			return false;
		at += n;
	}
	return true;
}

static void take_line(struct stream *s, const char *line, const char *end)
{
	const char *at = find_event(line, end);
	struct stream_event e = {.json = at};
	size_t len;
	int kind;

	if (!at)
		return;
	while (end > at && end[-1] <= ' ')
		end--;
	e.len = end - at;
	if (!clean(at, end) || !json_parse(&s->doc, at, e.len))
		return;
	kind = json_get(&s->doc, 0, "event");
	if (kind == JSON_NONE)
		return;
	e.kind = json_raw(&s->doc, kind, &len);
	e.kind_len = len;
	if (is_kind(&e, "run"))
		s->count = 0;
	if (s->count < s->room)
		s->events[s->count++] = e;
}

static unsigned count_marks(const char *log, const char *end)
{
	unsigned n = 0;

	for (; log < end; log++)
		n += *log == '#';
	return n;
}

bool stream_open(struct stream *s, const char *log, size_t len)
{
	const char *end = log + len;

	*s = (struct stream){.room = count_marks(log, end) + 1};
	s->doc.room = TOKENS;
	s->doc.tok = platform_alloc(TOKENS * sizeof(*s->doc.tok));
	s->events = platform_alloc(s->room * sizeof(*s->events));
	while (s->doc.tok && s->events && log < end) {
		const char *line = log;

		while (log < end && *log != '\n')
			log++;
		take_line(s, line, log);
		log++;
	}
	if (s->doc.tok && s->events && stream_find(s, "run", 0) >= 0)
		return true;
	stream_close(s);
	return false;
}

void stream_close(struct stream *s)
{
	if (s->events)
		platform_free(s->events, s->room * sizeof(*s->events));
	if (s->doc.tok)
		platform_free(s->doc.tok, TOKENS * sizeof(*s->doc.tok));
	*s = (struct stream){0};
}

int stream_find(const struct stream *s, const char *kind, unsigned from)
{
	for (unsigned i = from; i < s->count; i++) {
		if (is_kind(&s->events[i], kind))
			return i;
	}
	return -1;
}

int stream_last(const struct stream *s, const char *kind)
{
	for (unsigned i = s->count; i-- > 0;) {
		if (is_kind(&s->events[i], kind))
			return i;
	}
	return -1;
}

const struct json *stream_load(struct stream *s, int i)
{
	if (i < 0)
		s->doc.count = 0;
	else
		json_parse(&s->doc, s->events[i].json, s->events[i].len);
	return &s->doc;
}

const struct json *stream_each(struct stream *s, const char *kind, unsigned *at)
{
	int i = stream_find(s, kind, *at);

	if (i < 0)
		return NULL;
	*at = i + 1;
	return stream_load(s, i);
}
