/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The screen of a run, 80 columns by 25 rows of plain ASCII, as one more view of the stream: feed it
 * each line that is streamed, and draw what it has understood whenever there is time (never inside
 * a timed region; drawing touches nothing but the caller's rows). efi/screen.c puts the rows on
 * the console; where there is no screen, nobody calls this.
 */
#ifndef MCSPIN_REPORT_SCREEN_H
#define MCSPIN_REPORT_SCREEN_H

#include "../types.h"

#define SCREEN_COLUMNS 80
#define SCREEN_ROWS    25

struct screen_finding {
	char name[40], text[200];
	s64 ratio; /* in 1/10000 */
};

struct screen {
	char version[32], id[40], brand[56], hypervisor[24], doing[80], last[100], verdict[96];
	char result[8]; /* "" while the run goes on */
	char warning[100];
	u32 cpus, budget_s;
	bool emulated, crashed, no_volume;
	u32 tests, benches; /* planned; 0: not known */
	u32 tests_done, benches_done;
	u32 pass, fail, skip, error;
	struct screen_finding findings[24];
	u32 found;
	u32 drawn_permille; /* progress never walks back */
};

void screen_init(struct screen *s);
/* One line of the stream, with or without its newline. What is no event is passed over. */
void screen_feed(struct screen *s, const char *line, size_t len);
/* The rows as they should stand now, each exactly SCREEN_COLUMNS characters and a NUL. */
void screen_draw(struct screen *s, u32 elapsed_s, char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1]);

#endif
