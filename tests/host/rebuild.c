/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rebuild LOG [FOLDER]: every form of a report again, from a captured stream alone (a serial log will
 * do): results.json, junit.xml and report.html into FOLDER, which is made, or, without one, the table
 * for a terminal on the standard output. The same code as in the image, so the files are the same to the byte.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/report/views.h"

static void to_file(struct sink *s, const char *bytes, size_t len)
{
	if (fwrite(bytes, 1, len, (FILE *)s->buf) != len)
		s->overflow = true;
}

static char *read_log(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	char *log;

	if (!f)
		return NULL;
	if (fstat(fileno(f), &st) || !(log = malloc(st.st_size + 1))) {
		fclose(f);
		return NULL;
	}
	*len = fread(log, 1, st.st_size, f);
	fclose(f);
	return log;
}

static int make_form(const char *path, int (*view)(const char *, size_t, struct sink *),
		     const char *log, size_t len)
{
	FILE *f = path ? fopen(path, "wb") : stdout;
	struct sink sink = {.write = to_file, .buf = (char *)f};
	int err;

	if (!f) {
		perror(path);
		return 1;
	}
	err = view(log, len, &sink);
	if (path ? fclose(f) : fflush(f))
		sink.overflow = true;
	if (err)
		fprintf(stderr, "rebuild: the log holds no run of mcspin\n");
	else if (sink.overflow)
		fprintf(stderr, "rebuild: %s could not be written\n", path ? path : "the output");
	else if (path)
		puts(path);
	if (err && path)
		unlink(path);
	return err || sink.overflow;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*view)(const char *log, size_t len, struct sink *out);
	} forms[] = {
		{"results.json", view_results_json},
		{"junit.xml", view_junit_xml},
		{"report.html", view_report_html},
	};
	char path[1024];
	size_t len;
	char *log;
	int failed = 0;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: rebuild LOG [FOLDER]\n");
		return 2;
	}
	log = read_log(argv[1], &len);
	if (!log) {
		perror(argv[1]);
		return 2;
	}
	if (argc == 2)
		return make_form(NULL, view_table, log, len);
	if (mkdir(argv[2], 0777) && errno != EEXIST) {
		perror(argv[2]);
		return 2;
	}
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && !failed; i++) {
		snprintf(path, sizeof(path), "%s/%s", argv[2], forms[i].name);
		failed = make_form(path, forms[i].view, log, len);
	}
	return failed;
}
