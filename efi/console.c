/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two ways out: the stream goes to a UART that mcspin drives itself (1.7 µs a character; the
 * firmware's console takes 31), and drawing goes to a screen. Firmware mirrors its console to the
 * serial port, so drawing uses only a console that sits on a graphics device.
 */
#include "firmware.h"
#include "cpu.h"
#include "../src/platform.h"
#include "../src/run/options.h"

#define UART_DATA   0
#define UART_LINE   3
#define UART_MODEM  4
#define UART_STATUS 5
#define LSR_THRE    0x20
#define LSR_TEMT    0x40
#define UART_TRIES  200000
#define UART_WAITS  50 /* in vain, of 0.2 s each: then nobody drains this port */

static u16 uart; /* 0: none */
static unsigned waits;
static bool was_set_up;
static u8 old_line, old_modem, old_divisor[2];
static SIMPLE_TEXT_OUTPUT_INTERFACE *screen;
static bool stream_on_screen;

static u16 named_port(const char *name)
{
	static const u16 ports[] = {0x3f8, 0x2f8, 0x3e8, 0x2e8};
	u16 port = 0;

	if (name[0] == 'c')
		return ports[name[3] - '1'];
	for (name += 2; *name; name++)
		port = (u16)(port << 4 | (*name <= '9' ? *name - '0' : (*name | 0x20) - 'a' + 10));
	return port;
}

/* A port without a UART reads as all ones; a UART keeps what is written to its scratch register. */
static bool uart_there(u16 port)
{
	u8 kept = inb((u16)(port + 7));
	bool there;

	outb((u16)(port + 7), 0x5a);
	there = inb((u16)(port + 7)) == 0x5a && inb((u16)(port + UART_STATUS)) != 0xff;
	outb((u16)(port + 7), kept);
	return there;
}

/* A port that somebody named may never have been set up: 115200 baud, 8 bits, no parity. */
static void uart_setup(u16 port)
{
	old_line = inb((u16)(port + UART_LINE));
	old_modem = inb((u16)(port + UART_MODEM));
	outb((u16)(port + UART_LINE), 0x80); /* divisor latch */
	old_divisor[0] = inb(port);
	old_divisor[1] = inb((u16)(port + 1));
	was_set_up = true;
	outb(port, 1);
	outb((u16)(port + 1), 0);
	outb((u16)(port + UART_LINE), 0x03);
	outb((u16)(port + 2), 0x01); /* FIFO on */
	outb((u16)(port + UART_MODEM), 0x03); /* DTR, RTS */
}

void console_end(void)
{
	if (!was_set_up)
		return;
	for (unsigned i = 0; i < UART_TRIES && !(inb((u16)(uart + UART_STATUS)) & LSR_TEMT); i++)
		;
	outb((u16)(uart + UART_LINE), 0x80);
	outb(uart, old_divisor[0]);
	outb((u16)(uart + 1), old_divisor[1]);
	outb((u16)(uart + UART_LINE), old_line & 0x7f);
	outb((u16)(uart + UART_MODEM), old_modem);
	was_set_up = false;
}

/* The text console on the handle of a graphics device, if there is one. */
static SIMPLE_TEXT_OUTPUT_INTERFACE *graphics_console(void)
{
	EFI_GUID gop = EFI_GRAPHICS_OUTPUT_PROTOCOL_GUID, text = SIMPLE_TEXT_OUTPUT_PROTOCOL;
	EFI_GUID path = DEVICE_PATH_PROTOCOL;
	EFI_HANDLE *handles;
	UINTN n = 0;
	void *p, *found = NULL;

	if (fw_bs->LocateHandleBuffer(ByProtocol, &text, NULL, &n, &handles) != EFI_SUCCESS)
		return NULL;
	for (UINTN i = 0; i < n && !found; i++) {
		/* The console that mirrors to all devices offers graphics too, but is no device: it has
		 * no path. Under the Shell it is not ConsoleOutHandle. */
		if (handles[i] == fw_st->ConsoleOutHandle ||
		    fw_bs->HandleProtocol(handles[i], &gop, &p) != EFI_SUCCESS ||
		    fw_bs->HandleProtocol(handles[i], &path, &p) != EFI_SUCCESS)
			continue;
		fw_bs->HandleProtocol(handles[i], &text, &found);
	}
	fw_bs->FreePool(handles);
	return found;
}

void console_start(void)
{
	const char *c = options.console;

	if (c[0] == 's') {
		screen = fw_st->ConOut;
		stream_on_screen = true;
		return;
	}
	screen = graphics_console();
	if (c[0] == 'n')
		return;
	uart = c[0] == 'a' ? 0x3f8 : named_port(c);
	if (c[0] == 'a' && !uart_there(uart))
		uart = 0;
	if (c[0] != 'a')
		uart_setup(uart);
	/* No serial port and no graphics device: the firmware's console is all there is. */
	if (!uart && !screen)
		screen = fw_st->ConOut;
}

static void put(char c)
{
	unsigned i = 0;

	while (i < UART_TRIES && !(inb((u16)(uart + UART_STATUS)) & LSR_THRE))
		i++;
	outb((u16)(uart + UART_DATA), (u8)c);
	waits += i == UART_TRIES;
}

bool console_uart_stuck(void)
{
	return waits > UART_WAITS;
}

void console_uart(const char *text, size_t len)
{
	if (!uart)
		return;
	while (len-- && !console_uart_stuck()) {
		if (*text == '\n')
			put('\r');
		put(*text++);
	}
}

static void screen_text(const char *text, size_t len)
{
	CHAR16 wide[81];
	unsigned n = 0;

	if (!screen || !screen->OutputString || !fw_callable() || fw_inside)
		return;
	while (len--) {
		if (*text == '\n')
			wide[n++] = '\r';
		wide[n++] = (u8)*text < 0x80 ? (CHAR16)*text : L'?';
		text++;
		if (n >= 78 || !len) {
			wide[n] = 0;
			/* A console that fails once is not asked again. */
			if (EFI_ERROR(FW(screen->OutputString(screen, wide)))) {
				screen = NULL;
				return;
			}
			n = 0;
		}
	}
}

void console_screen(const char *text)
{
	if (!stream_on_screen)
		screen_text(text, text_length(text));
}

void console_screen_clear(void)
{
	if (screen && !stream_on_screen && screen->ClearScreen)
		screen->ClearScreen(screen);
}

void console_screen_at(unsigned column, unsigned row)
{
	if (screen && !stream_on_screen && screen->SetCursorPosition)
		screen->SetCursorPosition(screen, column, row);
}

void console_screen_size(unsigned *columns, unsigned *rows)
{
	UINTN c = 0, r = 0;

	if (screen && !stream_on_screen && screen->Mode)
		screen->QueryMode(screen, (UINTN)screen->Mode->Mode, &c, &r);
	*columns = (unsigned)c;
	*rows = (unsigned)r;
}

void console_say(const char *text)
{
	size_t n = text_length(text);

	console_uart(text, n);
	console_uart("\n", 1);
	if (!screen && !uart)
		screen = fw_st->ConOut;
	screen_text(text, n);
	screen_text("\n", 1);
}

u16 console_key(void)
{
	EFI_INPUT_KEY key;

	if (!fw_st->ConIn || !fw_callable() ||
	    FW(fw_st->ConIn->ReadKeyStroke(fw_st->ConIn, &key)) != EFI_SUCCESS)
		return 0;
	if (key.ScanCode == 0x17)
		return 0x1b;
	return key.UnicodeChar ? key.UnicodeChar : 1;
}

void platform_stream(const char *line, size_t len)
{
	processors_alive();
	console_uart(line, len);
	if (stream_on_screen)
		screen_text(line, len);
	else
		screen_line(line, len);
}
