/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the words come from: mcspin.cfg beside the image, then the command line over it. The Shell
 * hands words through its own protocol, their first the program's name. Load options may be a text
 * with or without that name, or bytes that are no text at all.
 */
#include "firmware.h"
#include "shell.h"
#include "../src/report/event.h"
#include "../src/run/options.h"

#define LINE_MAX_CHARS 1024

static char line[LINE_MAX_CHARS];
static size_t line_len;
/* Said as an event once the stream is open: load options that are no text. */
static bool junk;

bool fw_from_shell;

const char *options_junk(void)
{
	return junk ? "the load options are no text and were ignored" : NULL;
}

static bool add_char(CHAR16 c)
{
	if (line_len >= sizeof(line) - 1)
		return false;
	/* Keys and values are ASCII; anything else makes the word that holds it a bad one. */
	line[line_len++] = c < 0x7f ? (char)c : '?';
	line[line_len] = 0;
	return true;
}

static bool add_text(const CHAR16 *text)
{
	while (*text) {
		if (!add_char(*text++))
			return false;
	}
	return add_char(L' ');
}

/* -------------------------------------------------------------------- the Shell's words */

static bool from_shell(bool *fits)
{
	EFI_GUID guid = MCSPIN_SHELL_PARAMETERS_GUID;
	struct shell_parameters *sp;

	if (fw_bs->HandleProtocol(fw_image, &guid, (void **)&sp) != EFI_SUCCESS)
		return false;
	for (UINTN i = 1; i < sp->argc && *fits; i++)
		*fits = add_text(sp->argv[i]);
	return true;
}

/* -------------------------------------------------------------------- load options */

/* Whole UTF-16 units, printable ones up to a NUL or the end. */
static bool is_text(const CHAR16 *s, size_t units)
{
	if (!units)
		return false;
	for (size_t i = 0; i < units && s[i]; i++) {
		bool blank = s[i] == L' ' || s[i] == L'\t' || s[i] == L'\r' || s[i] == L'\n';

		if (!blank && (s[i] < 0x20 || s[i] == 0x7f || s[i] >= 0xd800))
			return false;
	}
	return s[0] != 0;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool ends_in_efi(const char *word, size_t len)
{
	return len >= 4 && word[len - 4] == '.' && lower(word[len - 3]) == 'e' &&
	       lower(word[len - 2]) == 'f' && lower(word[len - 1]) == 'i';
}

/* "MCSPIN" for \EFI\BOOT\MCSPIN.EFI; "" where the image has no path of text. */
static void image_stem(char *out, size_t max)
{
	char name[80];
	size_t n = files_image_name(name, sizeof(name));

	if (ends_in_efi(name, n))
		n -= 4;
	n = min_of(n, max - 1);
	memcpy(out, name, n);
	out[n] = 0;
}

static bool same_word(const char *a, size_t len, const char *b)
{
	size_t i = 0;

	for (; i < len && b[i]; i++) {
		if (lower(a[i]) != lower(b[i]))
			return false;
	}
	return i == len && !b[i];
}

/* The program's name in front: a first word without `=` that looks like it. */
static void drop_name(void)
{
	char stem[80];
	size_t start = 0, end, slash;
	bool equals = false;

	while (line[start] == ' ')
		start++;
	slash = start;
	for (end = start; line[end] && line[end] != ' '; end++) {
		equals = equals || line[end] == '=';
		if (line[end] == '\\' || line[end] == '/' || line[end] == ':')
			slash = end + 1;
	}
	image_stem(stem, sizeof(stem));
	if (end == start || equals)
		return;
	if (ends_in_efi(line + start, end - start) ||
	    (*stem && same_word(line + slash, end - slash, stem)))
		memset(line + start, ' ', end - start);
}

static void from_load_options(bool *fits)
{
	const u8 *bytes = fw_loaded->LoadOptions;
	size_t size = fw_loaded->LoadOptionsSize, units = size / 2;

	if (!bytes || !size)
		return;
	if (size % 2 || (u64)bytes % 2 || !is_text((const CHAR16 *)bytes, units)) {
		/* A terminator alone, or blanks, is an empty line rather than junk. */
		for (size_t i = 0; i < size; i++)
			junk = junk || bytes[i];
		return;
	}
	for (size_t i = 0; i < units && *fits; i++) {
		CHAR16 c = ((const CHAR16 *)bytes)[i];

		if (!c)
			break;
		*fits = add_char(c < 0x20 ? L' ' : c);
	}
	drop_name();
}

/* -------------------------------------------------------------------- all of it */

bool options_read(char *why, size_t len)
{
	bool fits = true;
	char *config = NULL;
	s64 bytes;

	options_init(&options);
	fw_from_shell = from_shell(&fits); /* first: it also decides how long a refusal is shown */
	bytes = files_config(&config);
	if (bytes < 0) {
		mc_snprintf(why, len, "mcspin.cfg: too long, or it cannot be read (error %d)", (int)-bytes);
		return false;
	}
	if (bytes && options_parse_file(&options, config, (size_t)bytes, "mcspin.cfg", why, len))
		return false;
	if (!fw_from_shell)
		from_load_options(&fits);
	if (!fits) {
		mc_snprintf(why, len, "command line: longer than %d characters", LINE_MAX_CHARS - 1);
		return false;
	}
	return options_parse(&options, line, "command line", why, len) == 0;
}
