/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of src/report/screen.h on the firmware's console: only those that changed, since a
 * character costs the firmware 31 µs. Drawn between tests, never inside a timed region.
 */
#include "firmware.h"
#include "../src/bench/tsc.h"
#include "../src/report/event.h"
#include "../src/report/screen.h"

#define REDRAW_US 500000

static struct screen shown;
static char rows[SCREEN_ROWS][SCREEN_COLUMNS + 1], drawn[SCREEN_ROWS][SCREEN_COLUMNS + 1];
static u64 started, last;

void screen_line(const char *line, size_t len)
{
	if (!started) {
		screen_init(&shown);
		started = rdtsc_ordered();
	}
	screen_feed(&shown, line, len);
}

/* Where the console is smaller than the picture its lower rows are left out: it would scroll. */
static unsigned rows_that_fit(void)
{
	unsigned columns, height;

	console_screen_size(&columns, &height);
	return columns < SCREEN_COLUMNS ? 0 : min_of(height, (unsigned)SCREEN_ROWS);
}

void screen_show(bool now)
{
	unsigned fit;
	u64 time = rdtsc_ordered();

	if (!started || !fw_callable() || (!now && last && time - last < tsc_from_us(REDRAW_US)))
		return;
	fit = rows_that_fit();
	if (fit && !last)
		console_screen_clear();
	last = time;
	screen_draw(&shown, (u32)(tsc_to_ns(time - started) / 1000000000), rows);
	for (unsigned r = 0; r < fit; r++) {
		if (!memcmp(rows[r], drawn[r], SCREEN_COLUMNS))
			continue;
		memcpy(drawn[r], rows[r], sizeof(rows[r]));
		/* The last cell of the last row would scroll. */
		if (r == fit - 1)
			rows[r][SCREEN_COLUMNS - 1] = 0;
		console_screen_at(0, r);
		console_screen(rows[r]);
	}
}
