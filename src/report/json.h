/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading JSON: mcspin's own stream, and the results of an earlier run, which may be damaged or no
 * JSON at all. A document is its text and jsmn's tokens; values are asked for by path of keys. A
 * token is named by its index, and JSON_NONE is a fit answer to every question about it.
 */
#ifndef MCSPIN_REPORT_JSON_H
#define MCSPIN_REPORT_JSON_H

#include "../types.h"

#define JSMN_HEADER
#define JSMN_PARENT_LINKS
#define JSMN_STRICT
#include <jsmn.h>

#define JSON_NONE (-1)

struct json {
	const char *text;
	jsmntok_t *tok;
	int count, room;
};

/* Parse `len` bytes into the document's own room of tokens (tok, room). False: no JSON object, or
 * more tokens than room. */
bool json_parse(struct json *j, const char *text, size_t len);
/* As json_parse(), with as many tokens from platform_alloc() as it takes. */
bool json_parse_alloc(struct json *j, const char *text, size_t len);
void json_free(struct json *j);

/* The value of `key` in the object `at` (0 is the document), or JSON_NONE. */
int json_get(const struct json *j, int at, const char *key);
/* The first element of an array or key of an object, and the one after `at` under its parent. */
int json_first(const struct json *j, int at);
int json_next(const struct json *j, int at);

/* The value's bytes as they stand, quotes of a string not included. "" and 0 for none. */
const char *json_raw(const struct json *j, int at, size_t *len);
/* Like json_raw(), the quotes included. */
const char *json_source(const struct json *j, int at, size_t *len);
bool json_is_string(const struct json *j, int at);
bool json_is_null(const struct json *j, int at); /* null, or not there */
bool json_is_true(const struct json *j, int at);
/* Do the value's bytes equal `text`? */
bool json_is(const struct json *j, int at, const char *text);
/* A string without its escapes, cut to fit, always terminated. */
void json_text(const struct json *j, int at, char *buf, size_t len);
/* A number times 10^decimals, digits beyond them cut off. False: no number, or out of range. */
bool json_fixed(const struct json *j, int at, unsigned decimals, s64 *value);

#endif
