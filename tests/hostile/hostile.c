/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads hostile.cfg, bends, starts mcspin.efi, tells, ends QEMU. */
#include "hostile.h"

#define COM1 0x3f8

static char ways[256], words[256];

static void out(UINT16 port, UINT8 v)
{
	__asm__ volatile("outb %0, %1" ::"a"(v), "Nd"(port));
}

static UINT8 in(UINT16 port)
{
	UINT8 v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static void put(char c)
{
	for (unsigned i = 0; i < 100000 && !(in(COM1 + 5) & 0x20); i++)
		;
	out(COM1, (UINT8)c);
}

void say(const char *fmt, ...)
{
	static CHAR16 wide[128], line[256];
	va_list ap;
	UINTN i = 0;

	for (; fmt[i] && i < 127; i++)
		wide[i] = (UINT8)fmt[i];
	wide[i] = 0;
	va_start(ap, fmt);
	VSPrint(line, sizeof(line), wide, ap);
	va_end(ap);
	for (const char *p = "\r\nhostile: "; *p; p++)
		put(*p);
	for (i = 0; line[i]; i++)
		put((char)line[i]);
	put('\r');
	put('\n');
}

int way(const char *word)
{
	UINTN n = 0;

	while (word[n])
		n++;
	for (const char *p = ways; *p;) {
		UINTN len = 0;

		while (p[len] && p[len] != ',')
			len++;
		if (len == n && !CompareMem(p, word, n))
			return 1;
		p += len + (p[len] == ',');
	}
	return 0;
}

static EFI_STATUS read_file(EFI_FILE_HANDLE root, CHAR16 *name, void *buf, UINTN *size)
{
	EFI_FILE_HANDLE file;
	EFI_STATUS status = root->Open(root, &file, name, EFI_FILE_MODE_READ, 0);

	if (status != EFI_SUCCESS)
		return status;
	status = file->Read(file, size, buf);
	file->Close(file);
	return status;
}

/* The rest of the line that begins with `key`, into `to`. */
static void take_line(const char *text, const char *key, char *to, UINTN room)
{
	UINTN n = 0, i = 0;

	while (key[n])
		n++;
	while (*text) {
		if (!CompareMem(text, key, n) && text[n] == ' ') {
			for (text += n + 1; *text && *text != '\n' && i < room - 1; text++)
				to[i++] = *text;
			break;
		}
		while (*text && *text++ != '\n')
			;
	}
	to[i] = 0;
}

/* The words as a boot option would carry them, or as some firmware does. */
static void give_words(EFI_LOADED_IMAGE *image)
{
	static const UINT8 junk[] = {0x01, 0x00, 0xff, 0xd8, 0x13, 0x37, 0x00, 0x80, 0x7f, 0x04, 0x2a};
	static CHAR16 wide[300];
	UINTN n = 0;

	if (way("junk")) {
		image->LoadOptions = (void *)junk;
		image->LoadOptionsSize = sizeof(junk);
		return;
	}
	for (const char *p = way("named") ? "\\EFI\\BOOT\\MCSPIN.EFI " : ""; *p; p++)
		wide[n++] = (CHAR16)*p;
	for (const char *p = words; *p; p++)
		wide[n++] = (CHAR16)*p;
	wide[n++] = 0;
	image->LoadOptions = wide;
	image->LoadOptionsSize = (UINT32)(n * 2);
}

typedef EFI_STATUS(EFIAPI *entry_point)(EFI_HANDLE, EFI_SYSTEM_TABLE *);

/* StartImage() frees the image when it returns; a firmware that made its pages read-only would first
 * make them writable. So with read-only text the entry point is called from here. */
static EFI_STATUS start(EFI_HANDLE child, EFI_LOADED_IMAGE *image)
{
	UINT8 *base = image->ImageBase, *pe = base + *(UINT32 *)(base + 0x3c);

	if (!way("ro"))
		return BS->StartImage(child, NULL, NULL);
	return ((entry_point)(base + *(UINT32 *)(pe + 24 + 16)))(child, ST);
}

static EFI_STATUS run(EFI_HANDLE self, EFI_LOADED_IMAGE *own, EFI_FILE_HANDLE root)
{
	EFI_GUID loaded = LOADED_IMAGE_PROTOCOL;
	EFI_LOADED_IMAGE *image;
	EFI_HANDLE child;
	EFI_PHYSICAL_ADDRESS at = 0xffffffff;
	UINTN size = 1 << 20;
	EFI_STATUS status;

	if (BS->AllocatePages(AllocateMaxAddress, EfiLoaderData, size >> 12, &at) != EFI_SUCCESS)
		return EFI_OUT_OF_RESOURCES;
	status = read_file(root, L"\\EFI\\BOOT\\mcspin.efi", (void *)at, &size);
	if (status != EFI_SUCCESS)
		return status;
	state_look();
	status = BS->LoadImage(FALSE, self, FileDevicePath(own->DeviceHandle, L"\\EFI\\BOOT\\mcspin.efi"),
			       (void *)at, size, &child);
	if (status != EFI_SUCCESS)
		return status;
	BS->HandleProtocol(child, &loaded, (void **)&image);
	give_words(image);
	if (way("no-volume"))
		image->DeviceHandle = NULL;
	bend_image(image);
	status = start(child, image);
	say("mcspin returned %lx", status);
	state_look();
	state_compare();
	tell_bends();
	return status;
}

EFI_STATUS efi_main(EFI_HANDLE self, EFI_SYSTEM_TABLE *table)
{
	EFI_GUID loaded = LOADED_IMAGE_PROTOCOL, volume = SIMPLE_FILE_SYSTEM_PROTOCOL;
	EFI_FILE_IO_INTERFACE *fs;
	EFI_LOADED_IMAGE *own;
	EFI_FILE_HANDLE root;
	static char text[1024];
	UINTN size = sizeof(text) - 1;
	EFI_STATUS status;

	InitializeLib(self, table);
	BS->HandleProtocol(self, &loaded, (void **)&own);
	BS->HandleProtocol(own->DeviceHandle, &volume, (void **)&fs);
	fs->OpenVolume(fs, &root);
	if (read_file(root, L"\\EFI\\BOOT\\hostile.cfg", text, &size) != EFI_SUCCESS)
		say("no hostile.cfg");
	take_line(text, "ways", ways, sizeof(ways));
	take_line(text, "words", words, sizeof(words));
	bend_services();
	status = run(self, own, root);
	say("end %lx", status);
	out(0xf4, status == EFI_SUCCESS ? 0x10 : 0x11);
	return status;
}
