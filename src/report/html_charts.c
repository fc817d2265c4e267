/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Charts as inline SVG, computed in integers. Axes are logarithmic and bear only numbers that were
 * measured: the lengths that were run, the least and the greatest value; the rules between are
 * doublings. Each chart says in words what it shows, for those who cannot see it.
 */
#include "event.h"
#include "html.h"

#define MAX_SERIES 24
#define MAX_POINTS 512

#define WIDTH  460
#define HEIGHT 300
#define LEFT   70
#define RIGHT  10
#define TOP    10
#define BOTTOM 28

struct point {
	u8 series;
	s64 x, y; /* y in 1/1000 */
	int event;
};

struct chart {
	struct point points[MAX_POINTS];
	unsigned count;
	char names[MAX_SERIES][48];
	unsigned series;
	s64 x_min, x_max, y_min, y_max;
	u32 lx0, lx1, ly0, ly1; /* the axes' ends, log2 in 1/1000 */
};

static struct chart chart;

u32 log2_milli(u64 x)
{
	unsigned whole = 63 - __builtin_clzll(x);
	u64 m = whole > 31 ? x >> (whole - 31) : x << (31 - whole); /* 1.0 … 2.0 in 31 bits */
	u64 fraction = 0;

	/* Squaring doubles the logarithm: its next bit is whether the square reaches 2. */
	for (unsigned bit = 0; bit < 16; bit++) {
		m = m * m >> 31;
		fraction <<= 1;
		if (m >> 32) {
			fraction |= 1;
			m >>= 1;
		}
	}
	return whole * 1000 + (u32)(fraction * 1000 >> 16);
}

/* -------------------------------------------------------------------- bars */

static u32 permyriad(s64 value, s64 most)
{
	if (value <= 0 || most <= 0)
		return 0;
	return (u32)min_of((u64)10000, (u64)value * 10000 / (u64)most);
}

static void percent(struct sink *out, const char *name, u32 value)
{
	sink_fmt(out, " %s=\"%u.%02u%%\"", name, value / 100, value % 100);
}

void html_bar(struct page *p, s64 value, s64 low, s64 high, s64 limit, s64 most)
{
	u32 a = permyriad(low, most), b = permyriad(high, most);

	sink_text(p->out, "<svg class=bar aria-hidden=true><rect class=back width=\"100%\" "
			  "height=\"100%\" rx=\"2\"/><rect class=fill height=\"100%\" rx=\"2\"");
	percent(p->out, "width", permyriad(value, most));
	sink_text(p->out, "/>");
	if (b > a) {
		sink_text(p->out, "<line y1=\"50%\" y2=\"50%\"");
		percent(p->out, "x1", a);
		percent(p->out, "x2", b);
		sink_text(p->out, "/>");
	}
	if (limit) {
		sink_text(p->out, "<line class=limit y1=\"-15%\" y2=\"115%\"");
		percent(p->out, "x1", permyriad(limit, most));
		percent(p->out, "x2", permyriad(limit, most));
		sink_text(p->out, "/>");
	}
	sink_text(p->out, "</svg>");
}

static s64 number(const struct json *j, const char *key)
{
	s64 value;

	return json_fixed(j, json_get(j, 0, key), 3, &value) ? value : 0;
}

bool html_finding_bars(struct page *p, const char *name, const char *title)
{
	const struct json *j;
	unsigned at = 0, n = 0;
	s64 most = 0;

	while ((j = stream_each(p->s, "finding", &at))) {
		if (json_is(j, json_get(j, 0, "name"), name))
			most = max_of(most, number(j, "ratio"));
	}
	at = 0;
	while (most && (j = stream_each(p->s, "finding", &at))) {
		size_t len;
		const char *digits = json_raw(j, json_get(j, 0, "ratio"), &len);

		if (!json_is(j, json_get(j, 0, "name"), name))
			continue;
		if (!n++)
			sink_fmt(p->out, "<h3>%s</h3><div class=bars>", title);
		sink_text(p->out, "<span>");
		sink_markup(p->out, j, json_get(j, 0, "text"));
		sink_text(p->out, "</span><span>");
		html_bar(p, number(j, "ratio"), 0, 0, 0, most);
		sink_text(p->out, "</span><b>");
		p->out->write(p->out, digits, len);
		sink_text(p->out, "</b>");
	}
	if (n)
		sink_text(p->out, "</div>");
	return n > 0;
}

/* What makes events of one bench a group: their parameters, without those that follow from the
 * variant. */
static void group_key(const struct json *j, char *buf, size_t len)
{
	int params = json_get(j, 0, "params");
	size_t at = 0;
	s64 bytes;

	*buf = 0;
	for (int k = json_first(j, params); k != JSON_NONE && at < len; k = json_next(j, k)) {
		char key[24], text[40];

		if (json_is(j, k, "instructions"))
			continue;
		json_text(j, k, key, sizeof(key));
		json_text(j, k + 1, text, sizeof(text));
		if (json_is(j, k, "length") && json_fixed(j, k + 1, 0, &bytes))
			html_length(text, sizeof(text), bytes);
		at += mc_snprintf(buf + at, len - at, "%s%s %s", at ? " \xc2\xb7 " : "", key, text);
	}
}

static bool in_group(const struct json *j, const char *bench, const char *group)
{
	char mine[200];

	if (!json_is(j, json_get(j, 0, "name"), bench))
		return false;
	group_key(j, mine, sizeof(mine));
	for (size_t i = 0; mine[i] == group[i]; i++) {
		if (!mine[i])
			return true;
	}
	return false;
}

static bool what_is(const struct json *j, const char *what)
{
	return json_is(j, json_get(j, json_get(j, 0, "params"), "what"), what);
}

/* A hand-off cannot be quicker than a cache line moves: the least transfer time of this run. */
static s64 limit_of(struct page *p, const char *bench)
{
	const struct json *j;
	unsigned at = 0;
	s64 least = 0;

	while ((j = stream_each(p->s, "bench", &at))) {
		if (json_is(j, json_get(j, 0, "name"), bench) && what_is(j, "line_transfer"))
			least = least ? min_of(least, number(j, "p50")) : number(j, "p50");
	}
	return least;
}

static void one_bar(struct page *p, const struct json *j, s64 limit, s64 most)
{
	int count = json_get(j, json_get(j, 0, "params"), "instructions");

	sink_text(p->out, "<span>");
	sink_markup(p->out, j, json_get(j, 0, "variant"));
	if (count != JSON_NONE) {
		sink_text(p->out, " <small class=soft>instructions ");
		html_value(p, j, count);
		sink_text(p->out, "</small>");
	}
	html_shared(p, j);
	sink_text(p->out, "</span><span>");
	html_bar(p, number(j, "p50"), number(j, "ci_low"), number(j, "ci_high"),
		 what_is(j, "handoff") ? limit : 0, most);
	sink_text(p->out, "</span><b>");
	html_value(p, j, json_get(j, 0, "p50"));
	sink_text(p->out, "</b>");
}

static void bar_group(struct page *p, const char *bench, const char *group)
{
	const struct json *j;
	unsigned at = 0;
	s64 most = 0, reach = 0, limit = limit_of(p, bench);

	while ((j = stream_each(p->s, "bench", &at))) {
		if (!in_group(j, bench, group))
			continue;
		most = max_of(most, number(j, "p50"));
		reach = max_of(reach, number(j, "ci_high"));
	}
	/* One wild interval must not make all the bars stubs. */
	most = max_of(most, min_of(reach, most + most / 4));
	at = 0;
	sink_text(p->out, "<div class=bars>");
	while ((j = stream_each(p->s, "bench", &at))) {
		if (in_group(j, bench, group))
			one_bar(p, j, limit, most);
	}
	sink_text(p->out, "</div>");
}

/* Has the group of event `i` occurred in an earlier event of this bench? */
static bool group_seen(struct page *p, const char *bench, unsigned i, const char *group)
{
	const struct json *j;
	unsigned at = 0;

	while ((j = stream_each(p->s, "bench", &at)) && at - 1 < i) {
		if (in_group(j, bench, group))
			return true;
	}
	return false;
}

bool html_bars(struct page *p, const char *bench, const char *title)
{
	const struct json *j;
	unsigned at = 0, n = 0;

	while ((j = stream_each(p->s, "bench", &at))) {
		char group[200];

		if (!json_is(j, json_get(j, 0, "name"), bench))
			continue;
		group_key(j, group, sizeof(group));
		if (group_seen(p, bench, at - 1, group))
			continue;
		j = stream_load(p->s, at - 1);
		if (!n++)
			sink_fmt(p->out, "<h3>%s</h3>", title);
		sink_text(p->out, "<p class=why>");
		sink_markup_text(p->out, group, text_length(group));
		sink_text(p->out, *group ? "; median, " : "median, ");
		html_value(p, j, json_get(j, 0, "unit"));
		sink_text(p->out, "; the dark line is the median's confidence interval");
		if (what_is(j, "handoff"))
			sink_text(p->out, ", the upright rule what a cache line needs to move");
		sink_text(p->out, "</p>");
		bar_group(p, bench, group);
	}
	return n > 0;
}

/* -------------------------------------------------------------------- lines */

static int series_of(const struct json *j)
{
	int variant = json_get(j, 0, "variant");

	for (unsigned i = 0; i < chart.series; i++) {
		if (json_is(j, variant, chart.names[i]))
			return i;
	}
	if (chart.series == MAX_SERIES)
		return -1;
	json_text(j, variant, chart.names[chart.series], sizeof(chart.names[0]));
	return chart.series++;
}

/* Kept in the order of x: lengths need not come sorted. */
static void insert(struct point point)
{
	unsigned i;

	for (i = chart.count++; i && chart.points[i - 1].x > point.x; i--)
		chart.points[i] = chart.points[i - 1];
	chart.points[i] = point;
}

/* The sweep over one axis only: where another parameter was swept as well, its first value. */
static bool have(int series, s64 x)
{
	for (unsigned i = 0; i < chart.count; i++) {
		if (chart.points[i].series == series && chart.points[i].x == x)
			return true;
	}
	return false;
}

static void collect(struct page *p, const char *bench, const char *x, const char *y,
		    const char *what)
{
	const struct json *j;
	unsigned at = 0;

	memset(&chart, 0, sizeof(chart));
	while ((j = stream_each(p->s, "bench", &at))) {
		struct point point = {.y = number(j, y), .event = at - 1};
		int series;

		/* A line without a point would have no legend. */
		if (chart.count == MAX_POINTS ||
		    !json_is(j, json_get(j, 0, "name"), bench) || point.y <= 0 ||
		    (what && !what_is(j, what)) ||
		    !json_fixed(j, json_get(j, json_get(j, 0, "params"), x), 0, &point.x) ||
		    point.x <= 0)
			continue;
		series = series_of(j);
		if (series < 0 || have(series, point.x))
			continue;
		point.series = series;
		insert(point);
		chart.x_min = chart.x_min ? min_of(chart.x_min, point.x) : point.x;
		chart.y_min = chart.y_min ? min_of(chart.y_min, point.y) : point.y;
		chart.x_max = max_of(chart.x_max, point.x);
		chart.y_max = max_of(chart.y_max, point.y);
	}
}

static void scale(void)
{
	chart.lx0 = log2_milli(chart.x_min);
	chart.lx1 = max_of(log2_milli(chart.x_max), chart.lx0 + 1);
	chart.ly0 = log2_milli(chart.y_min) / 1000 * 1000;
	chart.ly1 = (log2_milli(chart.y_max) / 1000 + 1) * 1000;
}

static int place_x(s64 x)
{
	return LEFT + (int)((log2_milli(x) - chart.lx0) * (WIDTH - LEFT - RIGHT) /
			    (chart.lx1 - chart.lx0));
}

static int place_log_y(u32 ly)
{
	return HEIGHT - BOTTOM -
	       (int)((ly - chart.ly0) * (HEIGHT - TOP - BOTTOM) / (chart.ly1 - chart.ly0));
}

static int place_y(s64 y)
{
	return place_log_y(log2_milli(y));
}

static void grid(struct page *p)
{
	for (u32 ly = chart.ly0; ly <= chart.ly1; ly += 1000)
		sink_fmt(p->out, "<line class=grid x1=%d x2=%d y1=%d y2=%d />", LEFT, WIDTH - RIGHT,
			 place_log_y(ly), place_log_y(ly));
}

/* The value of the event that has the least or greatest y, where it stands on the axis. */
static void y_label(struct page *p, const char *y, s64 value)
{
	for (unsigned i = 0; i < chart.count; i++) {
		const struct json *j;

		if (chart.points[i].y != value)
			continue;
		j = stream_load(p->s, chart.points[i].event);
		sink_fmt(p->out, "<text x=%d y=%d text-anchor=end>", LEFT - 8, place_y(value) + 4);
		html_value(p, j, json_get(j, 0, y));
		sink_text(p->out, "</text>");
		return;
	}
}

/* As many lengths as have room for their digits. */
static void x_labels(struct page *p, bool lengths)
{
	int last = -1000, end = place_x(chart.x_max);

	for (unsigned i = 0; i < chart.count; i++) {
		s64 x = chart.points[i].x;
		int at = place_x(x);
		char text[24];

		if (at - last < 58 || (at != end && end - at < 84))
			continue;
		last = at;
		mc_snprintf(text, sizeof(text), "%lld", (long long)x);
		if (lengths)
			html_length(text, sizeof(text), x);
		sink_fmt(p->out, "<text x=%d y=%d text-anchor=%s>%s</text>", at, HEIGHT - 8,
			 at == end ? "end" : "middle", text);
	}
}

static void one_line(struct page *p, unsigned series)
{
	sink_fmt(p->out, "<polyline class=\"k%u d%u\" style=\"fill:none\" points=\"", series % 8,
		 series / 8);
	for (unsigned i = 0; i < chart.count; i++) {
		if (chart.points[i].series == series)
			sink_fmt(p->out, "%d,%d ", place_x(chart.points[i].x),
				 place_y(chart.points[i].y));
	}
	sink_text(p->out, "\"/>");
	for (unsigned i = 0; i < chart.count; i++) {
		if (chart.points[i].series == series)
			sink_fmt(p->out, "<circle class=k%u r=2.5 cx=%d cy=%d />", series % 8,
				 place_x(chart.points[i].x), place_y(chart.points[i].y));
	}
}

/* The legend doubles as a table: each variant's value where the sweep ended, or its best. */
static void legend(struct page *p, const char *y, bool last)
{
	sink_text(p->out, "<ul class=key>");
	for (unsigned series = 0; series < chart.series; series++) {
		const struct point *best = NULL;
		const struct json *j;

		for (unsigned i = 0; i < chart.count; i++) {
			const struct point *point = &chart.points[i];

			if (point->series == series && (!best || last || point->y > best->y))
				best = point;
		}
		sink_fmt(p->out,
			 "<li><svg viewBox=\"0 0 24 8\" aria-hidden=true><line class=\"k%u d%u\" x1=0 "
			 "x2=24 y1=4 y2=4 /></svg><span>",
			 series % 8, series / 8);
		j = stream_load(p->s, best->event);
		sink_markup(p->out, j, json_get(j, 0, "variant"));
		sink_text(p->out, "</span><b>");
		html_value(p, j, json_get(j, 0, y));
		sink_text(p->out, "</b></li>");
	}
	sink_text(p->out, "</ul>");
}

static void in_words(struct page *p, const char *x, const char *y, const char *title)
{
	const struct json *j;

	sink_fmt(p->out, "<title id=t%u>%s</title><desc id=d%u>Lines of %s over %s, both axes "
			 "logarithmic. Highest: ",
		 p->charts, title, p->charts, y, x);
	for (unsigned i = 0; i < chart.count; i++) {
		if (chart.points[i].y != chart.y_max)
			continue;
		j = stream_load(p->s, chart.points[i].event);
		sink_markup(p->out, j, json_get(j, 0, "variant"));
		sink_text(p->out, ", ");
		html_value(p, j, json_get(j, 0, y));
		sink_fmt(p->out, ", at %s %lld", x, (long long)chart.points[i].x);
		break;
	}
	sink_text(p->out, ". All values stand in the table of measurements.</desc>");
}

bool html_lines(struct page *p, const char *bench, const char *x, const char *y, const char *what,
		const char *title)
{
	collect(p, bench, x, y, what);
	if (!chart.count)
		return false;
	scale();
	p->charts++;
	sink_fmt(p->out, "<figure><figcaption><b>%s</b>over %s; each rule is a doubling. "
			 "%s of each at the right. Run %s, machine %s%s</figcaption>",
		 title, x, what ? "Last" : "Best", p->id, p->fingerprint, p->emulated ? ", times are emulation" : "");
	sink_fmt(p->out,
		 "<svg class=plot viewBox=\"0 0 %d %d\" role=img aria-labelledby=\"t%u d%u\">", WIDTH,
		 HEIGHT, p->charts, p->charts);
	in_words(p, x, y, title);
	grid(p);
	y_label(p, y, chart.y_max);
	if (place_y(chart.y_min) - place_y(chart.y_max) > 14)
		y_label(p, y, chart.y_min);
	x_labels(p, *x == 'l');
	for (unsigned i = 0; i < chart.series; i++)
		one_line(p, i);
	sink_text(p->out, "</svg>");
	legend(p, y, what);
	sink_text(p->out, "</figure>");
	return true;
}
