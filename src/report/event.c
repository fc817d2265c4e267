/* SPDX-License-Identifier: GPL-2.0-only */
/* The stream: one line at a time is built in `line`, then goes to the platform and to the log. */
#include "event.h"
#include "../bench/tsc.h"
#include "../platform.h"

#define LOG_FIRST (256 << 10)
#define LOG_MAX	  (8 << 20)
#define DEPTH	  8

static char line[EVENT_MAX + 64];
static size_t at;
static bool full;
static char kind_now[32];
static bool first[DEPTH]; /* no comma yet at this depth */
static char closer[DEPTH];
static unsigned depth;

static char *log_buf;
static size_t log_len, log_cap;
static bool log_full;
static u64 last_line; /* TSC */
static const char *lost; /* what of the stream has a hole */

/* -------------------------------------------------------------------- the log */

static void log_append(const char *text, size_t len)
{
	/* Not even a shorter one: a log with a hole would be believed. */
	if (log_full)
		return;
	if (log_len + len > log_cap) {
		size_t cap = log_cap ? log_cap * 2 : LOG_FIRST;
		char *grown = cap <= LOG_MAX ? platform_alloc(cap) : NULL;

		if (!grown) {
			log_full = true; /* the stream has the line; the views end here */
			lost = "the log has outgrown its memory: the files end before the run does";
			return;
		}
		memcpy(grown, log_buf, log_len);
		if (log_buf)
			platform_free(log_buf, log_cap);
		log_buf = grown;
		log_cap = cap;
	}
	memcpy(log_buf + log_len, text, len);
	log_len += len;
}

const char *event_log(size_t *len)
{
	*len = log_len;
	return log_buf;
}

const char *event_lost(void)
{
	return lost;
}

static void send(const char *text, size_t len)
{
	log_append(text, len);
	platform_stream(text, len);
	last_line = rdtsc_ordered();
}

/* -------------------------------------------------------------------- JSON */

static void put(char c)
{
	if (at < EVENT_MAX)
		line[at++] = c;
	else
		full = true;
}

static void put_raw(const char *text)
{
	while (*text)
		put(*text++);
}

/* Overlong forms and surrogates are not valid. */
unsigned utf8_length(const u8 *s)
{
	unsigned n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	u32 low[] = {0, 0, 0x80, 0x800, 0x10000};
	u32 c = s[0] & (0xff >> (n + 1));

	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	for (unsigned i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < low[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	return n;
}

static void put_escaped(const char *text)
{
	const u8 *s = (const u8 *)text;
	char hex[8];

	put('"');
	while (*s) {
		if (*s == '"' || *s == '\\') {
			put('\\');
			put(*s++);
		} else if (*s < 0x20 || *s == 0x7f) {
			mc_snprintf(hex, sizeof(hex), "\\u%04x", *s++);
			put_raw(hex);
		} else if (*s < 0x80) {
			put(*s++);
		} else {
			unsigned n = utf8_length(s);

			if (!n) {
				put_raw("\\ufffd");
				s++;
			}
			while (n--)
				put(*s++);
		}
	}
	put('"');
}

static void key_of(const char *key)
{
	if (!first[depth])
		put_raw(", ");
	first[depth] = false;
	if (key) {
		put_escaped(key);
		put_raw(": ");
	}
}

static void open_level(char opener, char close)
{
	put(opener);
	if (depth + 1 < DEPTH)
		depth++;
	else
		full = true;
	first[depth] = true;
	closer[depth] = close;
}

void event_begin(const char *kind)
{
	at = 0;
	depth = 0;
	full = false;
	mc_snprintf(kind_now, sizeof(kind_now), "%s", kind);
	put_raw("# mcspin ");
	first[0] = true;
	open_level('{', '}');
	event_str("event", kind);
}

void event_str(const char *key, const char *value)
{
	key_of(key);
	if (value)
		put_escaped(value);
	else
		put_raw("null");
}

void event_fmt(const char *key, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	mc_vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	event_str(key, text);
}

static void put_u64(u64 value)
{
	char text[24];

	mc_snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put_raw(text);
}

void event_u64(const char *key, u64 value)
{
	key_of(key);
	put_u64(value);
}

void event_s64(const char *key, s64 value)
{
	key_of(key);
	if (value < 0)
		put('-');
	put_u64(value < 0 ? -(u64)value : (u64)value);
}

void event_bool(const char *key, bool value)
{
	key_of(key);
	put_raw(value ? "true" : "false");
}

void event_null(const char *key)
{
	event_str(key, NULL);
}

void event_fixed(const char *key, s64 value, unsigned decimals)
{
	u64 magnitude = value < 0 ? -(u64)value : (u64)value;
	u64 scale = 1;
	char text[48];

	for (unsigned i = 0; i < decimals; i++)
		scale *= 10;
	mc_snprintf(text, sizeof(text), "%s%llu", value < 0 ? "-" : "",
		    (unsigned long long)(magnitude / scale));
	key_of(key);
	put_raw(text);
	if (!decimals)
		return;
	mc_snprintf(text, sizeof(text), ".%0*llu", (int)decimals,
		    (unsigned long long)(magnitude % scale));
	put_raw(text);
}

void event_hex(const char *key, const void *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const u8 *p = bytes;

	key_of(key);
	put('"');
	for (size_t i = 0; i < len; i++) {
		put(digits[p[i] >> 4]);
		put(digits[p[i] & 15]);
	}
	put('"');
}

void event_hex64(const char *key, u64 value)
{
	event_fmt(key, "0x%llx", (unsigned long long)value);
}

void event_object(const char *key)
{
	key_of(key);
	open_level('{', '}');
}

void event_array(const char *key)
{
	key_of(key);
	open_level('[', ']');
}

void event_close(void)
{
	put(closer[depth]);
	if (depth)
		depth--;
}

void event_end(void)
{
	while (depth)
		event_close();
	if (full) {
		/* Never a torn line: say which event was lost instead. */
		lost = "an event did not fit into a line and was lost";
		at = mc_snprintf(line, sizeof(line),
				 "# mcspin {\"event\": \"warn\", \"text\": \"an event of kind %s "
				 "did not fit into a line and was lost\"}",
				 kind_now);
	}
	line[at++] = '\n';
	send(line, at);
}

/* -------------------------------------------------------------------- lines */

void ktap_line(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = mc_vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	n = min_of(n, sizeof(text) - 2);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\n')
			text[i] = ' ';
	}
	text[n++] = '\n';
	send(text, n);
}

void event_warn(const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	mc_vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	event_begin("warn");
	event_str("text", text);
	event_end();
}

void event_beacon(const char *where)
{
	u64 now = rdtsc_ordered();

	if (last_line && now - last_line < tsc_from_us(5 * 1000000))
		return;
	event_begin("beacon");
	event_str("where", where);
	event_end();
}

void event_finding(const char *name, const char *text, bool has_ratio, s64 ratio,
		   unsigned decimals, const char *const *evidence)
{
	event_begin("finding");
	event_str("name", name);
	event_str("text", text);
	if (has_ratio)
		event_fixed("ratio", ratio, decimals);
	else
		event_null("ratio");
	event_array("evidence");
	while (evidence && *evidence)
		event_str(NULL, *evidence++);
	event_close();
	event_end();
}
