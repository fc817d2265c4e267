/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mcspin-host: the core as a program. Same objects, same tests and benches, same reports; what needs
 * the bare machine is skipped with its reason.
 *
 *	mcspin-host [out=FOLDER] [key=value …]
 */
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "../../src/report/event.h"
#include "../../src/run/options.h"
#include "../../src/run/run.h"

static void print_line(const char *text)
{
	puts(text);
}

static int read_words(int argc, char **argv, const char **folder)
{
	char why[200];

	options_init(&options);
	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4)) {
			*folder = argv[i] + 4;
		} else if (options_parse(&options, argv[i], "command line", why, sizeof(why))) {
			fprintf(stderr, "mcspin: %s\n", why);
			return -1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *folder = NULL;
	enum result result;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (read_words(argc, argv, &folder))
		return 2;
	if (options.help || options.list) {
		if (options.help)
			options_help(print_line);
		else
			run_list(print_line);
		return 0;
	}
	if (host_start(options.cpus, folder)) {
		fprintf(stderr, "mcspin: no memory or threads for the processors\n");
		return 2;
	}
	result = run_all();
	return result == RESULT_PASS ? 0 : 1;
}
