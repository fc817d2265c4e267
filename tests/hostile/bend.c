/* SPDX-License-Identifier: GPL-2.0-only */
/* The ways to bend a firmware, each with what real firmware did to deserve it. */
#include "hostile.h"
#include "../../efi/memattr.h"
#include "../../efi/mp.h"

/* -------------------------------------------------------------------- MP Services */

static EFI_GUID mp_guid = MCSPIN_MP_SERVICES_GUID;
static struct mp_services *mp;
static EFI_STATUS(EFIAPI *real_startup_all)(struct mp_services *, mp_procedure, BOOLEAN, EFI_EVENT,
					    UINTN, VOID *, UINTN **);
static mp_procedure real_procedure;
static UINTN lost_number;

/* PI allows, after ReadyToBoot demands, that a call which would return at once is refused. */
static EFI_STATUS EFIAPI only_blocking(struct mp_services *this, mp_procedure fn, BOOLEAN single,
				       EFI_EVENT event, UINTN us, VOID *arg, UINTN **failed)
{
	if (event)
		return EFI_UNSUPPORTED;
	return real_startup_all(this, fn, single, event, us, arg, failed);
}

static EFI_STATUS EFIAPI not_ready(struct mp_services *this, mp_procedure fn, BOOLEAN single,
				   EFI_EVENT event, UINTN us, VOID *arg, UINTN **failed)
{
	return EFI_NOT_READY;
}

static VOID EFIAPI lose_one(VOID *arg)
{
	UINTN number = 0;

	mp->who_am_i(mp, &number);
	while (number == lost_number)
		__asm__ volatile("cli; hlt");
	real_procedure(arg);
}

static EFI_STATUS EFIAPI startup_but_one(struct mp_services *this, mp_procedure fn, BOOLEAN single,
					 EFI_EVENT event, UINTN us, VOID *arg, UINTN **failed)
{
	real_procedure = fn;
	return real_startup_all(this, lose_one, single, event, us, arg, failed);
}

static EFI_STATUS EFIAPI no_number(struct mp_services *this, UINTN *total, UINTN *enabled)
{
	return EFI_DEVICE_ERROR;
}

static void bend_mp(void)
{
	EFI_HANDLE *handles;
	UINTN n = 0, enabled;

	if (BS->LocateProtocol(&mp_guid, NULL, (void **)&mp) != EFI_SUCCESS)
		return;
	real_startup_all = mp->startup_all;
	if (way("mp-unsupported"))
		mp->startup_all = only_blocking;
	if (way("mp-not-ready"))
		mp->startup_all = not_ready;
	if (way("mp-error"))
		mp->get_number = no_number;
	if (way("mp-lost") && mp->get_number(mp, &n, &enabled) == EFI_SUCCESS) {
		lost_number = n - 1;
		mp->startup_all = startup_but_one;
	}
	if (way("mp-absent") && BS->LocateHandleBuffer(ByProtocol, &mp_guid, NULL, &n, &handles) ==
					EFI_SUCCESS)
		BS->UninstallProtocolInterface(handles[0], &mp_guid, mp);
}

/* -------------------------------------------------------------------- watchdog, console */

static EFI_STATUS EFIAPI watchdog_stays(UINTN timeout, UINT64 code, UINTN size, CHAR16 *data)
{
	return EFI_DEVICE_ERROR;
}

static EFI_STATUS EFIAPI mute(SIMPLE_TEXT_OUTPUT_INTERFACE *this, CHAR16 *string)
{
	return EFI_DEVICE_ERROR;
}

static EFI_STATUS EFIAPI mute_clear(SIMPLE_TEXT_OUTPUT_INTERFACE *this)
{
	return EFI_DEVICE_ERROR;
}

static void bend_console(void)
{
	EFI_GUID text = SIMPLE_TEXT_OUTPUT_PROTOCOL;
	SIMPLE_TEXT_OUTPUT_INTERFACE *out;
	EFI_HANDLE *handles;
	UINTN n = 0;

	if (BS->LocateHandleBuffer(ByProtocol, &text, NULL, &n, &handles) != EFI_SUCCESS)
		return;
	for (UINTN i = 0; i < n; i++) {
		if (BS->HandleProtocol(handles[i], &text, (void **)&out) != EFI_SUCCESS)
			continue;
		out->OutputString = mute;
		out->ClearScreen = mute_clear;
	}
	ST->ConOut->OutputString = mute;
	ST->ConOut->ClearScreen = mute_clear;
}

/* -------------------------------------------------------------------- ACPI */

static EFI_GUID acpi2 = ACPI_20_TABLE_GUID, acpi1 = ACPI_TABLE_GUID;

static UINT8 *acpi_root(void)
{
	for (UINTN i = 0; i < ST->NumberOfTableEntries; i++) {
		if (!CompareMem(&ST->ConfigurationTable[i].VendorGuid, &acpi2, sizeof(acpi2)))
			return ST->ConfigurationTable[i].VendorTable;
	}
	return NULL;
}

static void bend_acpi(void)
{
	UINT8 *rsdp = acpi_root();
	UINT8 *xsdt;

	if (!rsdp)
		return;
	if (way("acpi-none")) {
		BS->InstallConfigurationTable(&acpi2, NULL);
		BS->InstallConfigurationTable(&acpi1, NULL);
		return;
	}
	CopyMem(&xsdt, rsdp + 24, 8);
	if (way("acpi-root"))
		rsdp[9] ^= 0x55; /* inside the OEM id: the checksum no longer fits */
	if (way("acpi-length"))
		SetMem(xsdt + 4, 4, 0xff);
	if (way("acpi-empty"))
		SetMem(xsdt + 36, *(UINT32 *)(xsdt + 4) - 36, 0);
	if (way("acpi-tables")) {
		for (UINT32 at = 36; at < *(UINT32 *)(xsdt + 4); at += 8) {
			UINT8 *table;

			CopyMem(&table, xsdt + at, 8);
			table[10] ^= 0x55;
		}
	}
	/* Sums right, entries null. */
	if (way("acpi-empty")) {
		UINT8 sum = 0;

		xsdt[9] = 0;
		for (UINT32 i = 0; i < *(UINT32 *)(xsdt + 4); i++)
			sum = (UINT8)(sum + xsdt[i]);
		xsdt[9] = (UINT8)-sum;
	}
}

/* -------------------------------------------------------------------- text */

static UINT64 text_start, text_bytes;
static unsigned opened, closed, strange;

static EFI_STATUS EFIAPI ma_get(struct memory_attribute *this, EFI_PHYSICAL_ADDRESS base, UINT64 len,
				UINT64 *attributes)
{
	*attributes = page_writable(base) ? 0 : MEMATTR_RO;
	return EFI_SUCCESS;
}

static EFI_STATUS change(UINT64 base, UINT64 len, UINT64 attributes, int writable)
{
	int in = base >= text_start && base + len <= text_start + text_bytes;

	if (!in || attributes != MEMATTR_RO || base % 4096 || len % 4096) {
		strange++;
		return EFI_INVALID_PARAMETER;
	}
	for (UINT64 at = base; at < base + len; at += 4096)
		page_set_writable(at, writable);
	return EFI_SUCCESS;
}

static EFI_STATUS EFIAPI ma_set(struct memory_attribute *this, EFI_PHYSICAL_ADDRESS base, UINT64 len,
				UINT64 attributes)
{
	closed++;
	return change(base, len, attributes, 0);
}

static EFI_STATUS EFIAPI ma_clear(struct memory_attribute *this, EFI_PHYSICAL_ADDRESS base,
				  UINT64 len, UINT64 attributes)
{
	opened++;
	return change(base, len, attributes, 1);
}

static EFI_STATUS EFIAPI ma_refuse(struct memory_attribute *this, EFI_PHYSICAL_ADDRESS base,
				   UINT64 len, UINT64 attributes)
{
	opened++;
	return EFI_ACCESS_DENIED;
}

static struct memory_attribute ma = {ma_get, ma_set, ma_clear};

void bend_image(EFI_LOADED_IMAGE *image)
{
	EFI_GUID guid = MCSPIN_MEMORY_ATTRIBUTE_GUID;
	UINT8 *base = image->ImageBase, *pe = base + *(UINT32 *)(base + 0x3c), *section;
	EFI_HANDLE handle = NULL;

	if (!way("ro"))
		return;
	/* .text is the first section of mcspin's image. */
	section = pe + 24 + *(UINT16 *)(pe + 20);
	text_start = (UINT64)base + *(UINT32 *)(section + 12);
	text_bytes = (*(UINT32 *)(section + 8) + 4095ull) & ~4095ull;
	for (UINT64 at = text_start; at < text_start + text_bytes; at += 4096) {
		if (!page_set_writable(at, 0))
			say("page %lx could not be made read-only", at);
	}
	if (way("memattr-refuses"))
		ma.clear = ma_refuse;
	if (way("memattr") || way("memattr-refuses"))
		BS->InstallProtocolInterface(&handle, &guid, EFI_NATIVE_INTERFACE, &ma);
}

void bend_services(void)
{
	bend_mp();
	bend_acpi();
	if (way("la57"))
		bend_paging();
	if (way("watchdog"))
		BS->SetWatchdogTimer = watchdog_stays;
	if (way("console"))
		bend_console();
}

void tell_bends(void)
{
	if (text_start)
		say("text first writable %d last writable %d opened %u closed %u strange %u",
		    page_writable(text_start), page_writable(text_start + text_bytes - 1), opened,
		    closed, strange);
}
