/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The words that mcspin was started with: mcspin.cfg beside the image, then over it the command
 * line: the Shell's parameters, or the load options of a boot option.
 */
#include "firmware.h"
#include "../src/report/event.h"
#include "../src/run/options.h"

struct shell_parameters {
	CHAR16 **argv;
	UINTN argc;
	VOID *in, *out, *err;
};

#define LINE_MAX 512

bool fw_from_shell;
static char line[LINE_MAX];
static const char *junk; /* why the load options were not read */

/* UTF-16 to ASCII; false when it is no text. */
static bool append(const CHAR16 *text, size_t chars)
{
	size_t n = 0;

	while (line[n])
		n++;
	if (n)
		line[n++] = ' ';
	for (size_t i = 0; i < chars && text[i]; i++) {
		if (text[i] > 0x7e || (text[i] < 0x20 && text[i] != '\t'))
			return false;
		if (n + 1 >= LINE_MAX)
			return false;
		line[n++] = (char)text[i];
	}
	line[n] = 0;
	return true;
}

static bool from_shell(void)
{
	static EFI_GUID guid = {
		0x752f3136, 0x4e16, 0x4fdc, {0xa2, 0x2a, 0xe5, 0xf4, 0x68, 0x12, 0xf4, 0xca}};
	struct shell_parameters *p;

	if (fw_bs->HandleProtocol(fw_image, &guid, (void **)&p) != EFI_SUCCESS)
		return false;
	fw_from_shell = true;
	for (UINTN i = 1; i < p->argc; i++) {
		if (!append(p->argv[i], LINE_MAX)) {
			junk = "the Shell's parameters are no plain text";
			line[0] = 0;
			break;
		}
	}
	return true;
}

/* A first word that is the program's own name: it ends in .efi, or is the file's stem. */
static void drop_name(void)
{
	size_t n = 0, equals = 0;
	bool name;

	while (line[n] && line[n] != ' ') {
		equals |= line[n] == '=';
		n++;
	}
	name = !equals && ((n >= 4 && (!memcmp(line + n - 4, ".efi", 4) ||
				       !memcmp(line + n - 4, ".EFI", 4))) ||
			   (n == 6 && !memcmp(line, "mcspin", 6)) ||
			   (n == 7 && !memcmp(line, "BOOTX64", 7)));
	if (name)
		memmove(line, line + n, sizeof(line) - n);
}

static void from_load_options(void)
{
	UINT32 bytes = fw_loaded->LoadOptionsSize;

	if (!bytes || !fw_loaded->LoadOptions)
		return;
	if (bytes % 2 || !append(fw_loaded->LoadOptions, bytes / 2)) {
		line[0] = 0;
		junk = "the load options are no text and were ignored";
		return;
	}
	drop_name();
}

bool options_read(char *why, size_t len)
{
	char *config;

	options_init(&options);
	config = files_config();
	if (config && options_parse(&options, config, "mcspin.cfg", why, len))
		return false;
	if (!from_shell())
		from_load_options();
	if (options_parse(&options, line, "command line", why, len))
		return false;
	return true;
}

const char *options_junk(void);
const char *options_junk(void)
{
	return junk;
}
