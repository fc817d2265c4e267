/* SPDX-License-Identifier: GPL-2.0-only */
/* mc_vsnprintf(): see event.h for why mcspin formats on its own. Integers and strings only. */
#include "event.h"

struct out {
	char *buf;
	size_t len, at;
};

static void put(struct out *o, char c)
{
	if (o->at + 1 < o->len)
		o->buf[o->at] = c;
	o->at++;
}

static void pad(struct out *o, int n, char c)
{
	while (n-- > 0)
		put(o, c);
}

struct spec {
	bool left, zero;
	int width, precision; /* precision -1: none */
	int longs;	      /* 0 int, 1 long or size_t, 2 long long: the latter two are 64 bits */
};

static void put_number(struct out *o, const struct spec *s, u64 value, unsigned base, bool minus,
		       bool upper)
{
	char digits[24];
	int n = 0, room;

	do {
		unsigned d = value % base;

		digits[n++] = d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10;
		value /= base;
	} while (value);
	room = s->width - n - minus;
	if (!s->left && !s->zero)
		pad(o, room, ' ');
	if (minus)
		put(o, '-');
	if (!s->left && s->zero)
		pad(o, room, '0');
	while (n)
		put(o, digits[--n]);
	if (s->left)
		pad(o, room, ' ');
}

static void put_text(struct out *o, const struct spec *s, const char *text)
{
	int n = 0;

	if (!text)
		text = "(null)";
	while ((s->precision < 0 || n < s->precision) && text[n])
		n++;
	if (!s->left)
		pad(o, s->width - n, ' ');
	for (int i = 0; i < n; i++)
		put(o, text[i]);
	if (s->left)
		pad(o, s->width - n, ' ');
}

static const char *parse_number(const char *fmt, int *value, va_list *ap)
{
	if (*fmt == '*') {
		*value = va_arg(*ap, int);
		return fmt + 1;
	}
	*value = 0;
	while (*fmt >= '0' && *fmt <= '9')
		*value = *value * 10 + *fmt++ - '0';
	return fmt;
}

static const char *parse_spec(const char *fmt, struct spec *s, va_list *ap)
{
	*s = (struct spec){.precision = -1};
	for (;; fmt++) {
		if (*fmt == '-')
			s->left = true;
		else if (*fmt == '0')
			s->zero = true;
		else
			break;
	}
	fmt = parse_number(fmt, &s->width, ap);
	if (*fmt == '.')
		fmt = parse_number(fmt + 1, &s->precision, ap);
	for (; *fmt == 'l' || *fmt == 'z'; fmt++)
		s->longs++;
	return fmt;
}

static void put_signed(struct out *o, const struct spec *s, s64 v)
{
	put_number(o, s, v < 0 ? -(u64)v : (u64)v, 10, v < 0, false);
}

int mc_vsnprintf(char *buf, size_t len, const char *fmt, va_list args)
{
	struct out o = {buf, len, 0};
	struct spec s;
	va_list ap;

	va_copy(ap, args);
	for (; *fmt; fmt++) {
		if (*fmt != '%') {
			put(&o, *fmt);
			continue;
		}
		fmt = parse_spec(fmt + 1, &s, &ap);
		switch (*fmt) {
		case 'd':
		case 'i':
			put_signed(&o, &s, s.longs ? va_arg(ap, s64) : va_arg(ap, int));
			break;
		case 'u':
		case 'x':
		case 'X':
			put_number(&o, &s, s.longs ? va_arg(ap, u64) : va_arg(ap, unsigned),
				   *fmt == 'u' ? 10 : 16, false, *fmt == 'X');
			break;
		case 'p':
			put(&o, '0');
			put(&o, 'x');
			put_number(&o, &s, (u64)va_arg(ap, void *), 16, false, false);
			break;
		case 'c':
			put(&o, (char)va_arg(ap, int));
			break;
		case 's':
			put_text(&o, &s, va_arg(ap, const char *));
			break;
		default: /* %% and what we do not know stand for themselves */
			put(&o, *fmt);
			break;
		}
		if (!*fmt)
			break;
	}
	va_end(ap);
	if (len)
		buf[min_of(o.at, len - 1)] = 0;
	return (int)o.at;
}

int mc_snprintf(char *buf, size_t len, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = mc_vsnprintf(buf, len, fmt, ap);
	va_end(ap);
	return n;
}

const char *ratio_text(char buf[RATIO_TEXT], s64 ratio, unsigned add)
{
	ratio = (ratio + add) / 100;
	mc_snprintf(buf, RATIO_TEXT, "%lld.%02lld", (long long)(ratio / 100), (long long)(ratio % 100));
	return buf;
}
