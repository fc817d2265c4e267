/* SPDX-License-Identifier: GPL-2.0-only */
/* The one place that compiles jsmn, freestanding as it is. */
#include "../types.h"
#define JSMN_PARENT_LINKS
#define JSMN_STRICT
#include <jsmn.h>
#include "json.h"
#include "../platform.h"

/* jsmn takes any sequence of values; a document is one object and nothing behind it. */
static bool whole(const struct json *j, size_t len)
{
	if (j->count < 1 || j->tok[0].type != JSMN_OBJECT)
		return false;
	for (size_t i = j->tok[0].end; i < len; i++) {
		if (j->text[i] > ' ')
			return false;
	}
	return true;
}

bool json_parse(struct json *j, const char *text, size_t len)
{
	jsmn_parser parser;

	jsmn_init(&parser);
	j->text = text;
	j->count = jsmn_parse(&parser, text, len, j->tok, j->room);
	return whole(j, len);
}

bool json_parse_alloc(struct json *j, const char *text, size_t len)
{
	jsmn_parser parser;
	int need;

	*j = (struct json){.text = text};
	jsmn_init(&parser);
	need = jsmn_parse(&parser, text, len, NULL, 0);
	if (need < 1)
		return false;
	j->tok = platform_alloc(need * sizeof(*j->tok));
	if (!j->tok)
		return false;
	j->room = need;
	if (json_parse(j, text, len))
		return true;
	json_free(j);
	return false;
}

void json_free(struct json *j)
{
	if (j->tok)
		platform_free(j->tok, j->room * sizeof(*j->tok));
	j->tok = NULL;
	j->count = 0;
}

static const jsmntok_t *token(const struct json *j, int at)
{
	return at >= 0 && at < j->count ? &j->tok[at] : NULL;
}

int json_first(const struct json *j, int at)
{
	const jsmntok_t *t = token(j, at);

	return t && t->size && at + 1 < j->count ? at + 1 : JSON_NONE;
}

/* Tokens lie in the order of the text: the next one that begins behind this one's end. A key ends
 * where its own text does, its value is its child. */
int json_next(const struct json *j, int at)
{
	const jsmntok_t *t = token(j, at);
	int parent;

	if (!t)
		return JSON_NONE;
	parent = t->parent;
	for (at++; at < j->count && j->tok[at].parent != parent; at++) {
		if (j->tok[at].parent < parent)
			return JSON_NONE;
	}
	return at < j->count ? at : JSON_NONE;
}

bool json_is(const struct json *j, int at, const char *text)
{
	const jsmntok_t *t = token(j, at);
	size_t n = text_length(text);

	return t && (size_t)(t->end - t->start) == n && !memcmp(j->text + t->start, text, n);
}

int json_get(const struct json *j, int at, const char *key)
{
	const jsmntok_t *t = token(j, at);

	if (!t || t->type != JSMN_OBJECT)
		return JSON_NONE;
	for (int k = json_first(j, at); k != JSON_NONE; k = json_next(j, k)) {
		if (json_is(j, k, key) && j->tok[k].size == 1)
			return k + 1;
	}
	return JSON_NONE;
}

const char *json_raw(const struct json *j, int at, size_t *len)
{
	const jsmntok_t *t = token(j, at);

	*len = t ? t->end - t->start : 0;
	return t ? j->text + t->start : "";
}

const char *json_source(const struct json *j, int at, size_t *len)
{
	const char *text = json_raw(j, at, len);

	if (!json_is_string(j, at))
		return text;
	*len += 2;
	return text - 1;
}

bool json_is_string(const struct json *j, int at)
{
	const jsmntok_t *t = token(j, at);

	return t && t->type == JSMN_STRING;
}

bool json_is_null(const struct json *j, int at)
{
	return !token(j, at) || (!json_is_string(j, at) && json_is(j, at, "null"));
}

bool json_is_true(const struct json *j, int at)
{
	return !json_is_string(j, at) && json_is(j, at, "true");
}

static unsigned hex4(const char *s, const char *end)
{
	unsigned value = 0;

	for (int i = 0; i < 4; i++) {
		char c = s + i < end ? s[i] : '0';

		value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return value & 0xffff;
}

/* UTF-8 of one code point; surrogates, which mcspin never writes, become U+FFFD. */
static unsigned utf8(unsigned c, char *out)
{
	if (c >= 0xd800 && c < 0xe000)
		c = 0xfffd;
	if (c < 0x80) {
		out[0] = c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = 0xc0 | c >> 6;
		out[1] = 0x80 | (c & 0x3f);
		return 2;
	}
	out[0] = 0xe0 | c >> 12;
	out[1] = 0x80 | (c >> 6 & 0x3f);
	out[2] = 0x80 | (c & 0x3f);
	return 3;
}

/* One character of a JSON string, escapes resolved; its bytes into `out`. */
static unsigned unescape(const char **s, const char *end, char out[4])
{
	char c = *(*s)++;

	out[0] = c;
	if (c != '\\' || *s >= end)
		return 1;
	c = *(*s)++;
	switch (c) {
	case 'n':
		out[0] = '\n';
		break;
	case 't':
		out[0] = '\t';
		break;
	case 'r':
		out[0] = '\r';
		break;
	case 'b':
	case 'f':
		out[0] = ' ';
		break;
	case 'u':
		c = (char)utf8(hex4(*s, end), out);
		*s = min_of(*s + 4, end);
		return c;
	default:
		out[0] = c;
	}
	return 1;
}

void json_text(const struct json *j, int at, char *buf, size_t len)
{
	size_t n, used = 0;
	const char *s = json_raw(j, at, &n);
	const char *end = s + n;

	while (s < end) {
		char bytes[4];
		unsigned count = unescape(&s, end, bytes);

		if (used + count >= len)
			break;
		memcpy(buf + used, bytes, count);
		used += count;
	}
	if (len)
		buf[used] = 0;
}

static bool add_digit(u64 *value, char c)
{
	return !__builtin_mul_overflow(*value, 10ull, value) &&
	       !__builtin_add_overflow(*value, (u64)(c - '0'), value);
}

bool json_fixed(const struct json *j, int at, unsigned decimals, s64 *value)
{
	size_t n;
	const char *s = json_raw(j, at, &n);
	const char *end = s + n;
	bool minus = n && *s == '-';
	bool fraction = false;
	u64 magnitude = 0;

	if (!token(j, at) || j->tok[at].type != JSMN_PRIMITIVE)
		return false;
	s += minus;
	if (s == end || *s < '0' || *s > '9')
		return false;
	for (; s < end; s++) {
		if (*s == '.' && !fraction) {
			fraction = true;
			continue;
		}
		if (*s < '0' || *s > '9')
			return false; /* exponents: mcspin writes none */
		if (fraction && !decimals)
			continue;
		decimals -= fraction;
		if (!add_digit(&magnitude, *s))
			return false;
	}
	while (decimals--) {
		if (!add_digit(&magnitude, '0'))
			return false;
	}
	if (magnitude > INT64_MAX)
		return false;
	*value = minus ? -(s64)magnitude : (s64)magnitude;
	return true;
}
