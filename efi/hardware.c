/* SPDX-License-Identifier: GPL-2.0-only */
/* The machine's registers, tables and timers, as platform.h asks for them. */
#include "firmware.h"
#include "cpu.h"
#include "../src/cpu/features.h"
#include "../src/cpu/percpu.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/trap/extable.h"

/* -------------------------------------------------------------------- MSRs, debug registers */

int platform_rdmsr(u32 msr, u64 *value)
{
	u32 low = 0, high = 0;
	int err = 0;

	__asm__ volatile("1:	rdmsr\n"
			 "	jmp 3f\n"
			 "2:	movl %4, %0\n"
			 "3:\n" _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT)
			 : "+r"(err), "+a"(low), "+d"(high)
			 : "c"(msr), "i"(-EIO)
			 : "memory");
	*value = (u64)high << 32 | low;
	return err;
}

int platform_wrmsr(u32 msr, u64 value)
{
	int err = 0;

	__asm__ volatile("1:	wrmsr\n"
			 "	jmp 3f\n"
			 "2:	movl %4, %0\n"
			 "3:\n" _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT)
			 : "+r"(err)
			 : "c"(msr), "a"((u32)value), "d"((u32)(value >> 32)), "i"(-EIO)
			 : "memory");
	return err;
}

int platform_watchpoint(unsigned index, const void *addr, bool write_only)
{
	u64 dr7 = read_dr7();

	if (index > 3)
		return -EINVAL;
	/* DR7: local enable at 2n, kind (1 write, 3 read or write) at 16 + 4n, length 0 = 1 byte. */
	dr7 &= ~(3ul << 2 * index | 15ul << (16 + 4 * index));
	if (addr) {
		switch (index) {
		case 0:
			__asm__ volatile("movq %0, %%dr0" ::"r"(addr));
			break;
		case 1:
			__asm__ volatile("movq %0, %%dr1" ::"r"(addr));
			break;
		case 2:
			__asm__ volatile("movq %0, %%dr2" ::"r"(addr));
			break;
		default:
			__asm__ volatile("movq %0, %%dr3" ::"r"(addr));
			break;
		}
		dr7 |= 1ul << 2 * index | (write_only ? 1ul : 3ul) << (16 + 4 * index);
	}
	write_dr7(dr7);
	return 0;
}

u64 platform_debug_status(void)
{
	u64 v;

	__asm__ volatile("movq %%dr6, %0" : "=r"(v));
	__asm__ volatile("movq %0, %%dr6" ::"r"(0xffff0ff0ul));
	return v & 15;
}

/* -------------------------------------------------------------------- vector state */

static u64 xgetbv(void)
{
	u32 low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (u64)high << 32 | low;
}

static void xsetbv(u64 v)
{
	__asm__ volatile("xsetbv" ::"c"(0), "a"((u32)v), "d"((u32)(v >> 32)) : "memory");
}

#define XCR0_SSE    3ul
#define XCR0_AVX    4ul
#define XCR0_AVX512 0xe0ul

int platform_vector_begin(void)
{
	struct percpu *cpu = this_cpu();
	u64 want = XCR0_SSE;

	if (!boot_cpu_has(X86_FEATURE_XSAVE) || !boot_cpu_has(X86_FEATURE_AVX2))
		return -ENODEV;
	cpu->old_cr4 = read_cr4();
	write_cr4(cpu->old_cr4 | X86_CR4_OSXSAVE);
	cpu->old_xcr0 = xgetbv();
	want |= XCR0_AVX;
	if (boot_cpu_has(X86_FEATURE_AVX512F))
		want |= XCR0_AVX512;
	xsetbv(cpu->old_xcr0 | want);
	return 0;
}

void platform_vector_end(void)
{
	struct percpu *cpu = this_cpu();

	if (!boot_cpu_has(X86_FEATURE_XSAVE) || !boot_cpu_has(X86_FEATURE_AVX2))
		return;
	xsetbv(cpu->old_xcr0);
	write_cr4(cpu->old_cr4);
	cpu->old_xcr0 = 0;
}

/* -------------------------------------------------------------------- PCI */

/* Mechanism one works on every PC for segment 0; other segments would need ECAM, and no quirk of
 * Linux's looks there. */
int platform_pci_read32(u32 segment, u32 bus, u32 dev, u32 fn, u32 offset, u32 *value)
{
	unsigned long flags;
	u32 kept;

	if (segment || offset > 252)
		return -ENODEV;
	flags = platform_irq_save();
	kept = inl(0xcf8);
	__asm__ volatile("outl %0, %1" ::"a"(1u << 31 | bus << 16 | dev << 11 | fn << 8 |
					    (offset & ~3u)),
			 "Nd"((u16)0xcf8));
	*value = inl(0xcfc);
	__asm__ volatile("outl %0, %1" ::"a"(kept), "Nd"((u16)0xcf8));
	platform_irq_restore(flags);
	return 0;
}

/* -------------------------------------------------------------------- ACPI */

struct __packed acpi_header {
	char signature[4];
	u32 length;
	u8 revision, checksum;
	char oem[6], oem_table[8];
	u32 oem_revision, creator, creator_revision;
};
static_assert(sizeof(struct acpi_header) == 36, "ACPI 6.5, table 5.4");

static EFI_GUID acpi_guid = ACPI_20_TABLE_GUID;

static bool sums_to_zero(const void *p, size_t len)
{
	const u8 *b = p;
	u8 sum = 0;

	while (len--)
		sum = (u8)(sum + *b++);
	return !sum;
}

static void *config_table(const EFI_GUID *guid)
{
	for (UINTN i = 0; i < fw_st->NumberOfTableEntries; i++) {
		if (!memcmp(&fw_st->ConfigurationTable[i].VendorGuid, guid, sizeof(*guid)))
			return fw_st->ConfigurationTable[i].VendorTable;
	}
	return NULL;
}

#define ACPI_TABLE_MAX (1u << 20)

/* A pointer out of a damaged table may lead anywhere; boot services map memory one to one. */
static bool mapped(u64 at, size_t len)
{
	return at && !(at >> 47) && memory_pte((const void *)at) &&
	       memory_pte((const void *)(at + len - 1));
}

/* A whole table whose sum is right? */
static bool sound_table(const struct acpi_header *t)
{
	return t->length >= sizeof(*t) && t->length <= ACPI_TABLE_MAX &&
	       mapped((u64)t, t->length) && sums_to_zero(t, t->length);
}

static const struct acpi_header *xsdt(void)
{
	static const struct acpi_header *found;
	static bool looked;
	const u8 *rsdp;
	u64 at;

	if (looked)
		return found;
	looked = true;
	rsdp = config_table(&acpi_guid);
	if (!rsdp || memcmp(rsdp, "RSD PTR ", 8)) {
		event_warn("the firmware offers no ACPI tables");
		return NULL;
	}
	if (!sums_to_zero(rsdp, 36)) {
		event_warn("the ACPI root pointer's checksum is wrong: no table is used");
		return NULL;
	}
	memcpy(&at, rsdp + 24, 8);
	found = (const struct acpi_header *)at;
	if (!mapped(at, sizeof(*found)) || memcmp(found->signature, "XSDT", 4) || !sound_table(found)) {
		event_warn("the ACPI XSDT is damaged: no table is used");
		found = NULL;
	}
	return found;
}

const void *platform_acpi_table(const char signature[4], size_t *len)
{
	const struct acpi_header *root = xsdt();
	size_t entries = root ? (root->length - sizeof(*root)) / 8 : 0;

	for (size_t i = 0; i < entries; i++) {
		const struct acpi_header *t;
		u64 at;

		memcpy(&at, (const u8 *)root + sizeof(*root) + 8 * i, 8);
		t = (const struct acpi_header *)at;
		if (!mapped(at, sizeof(*t)) || memcmp(t->signature, signature, 4))
			continue;
		if (!sound_table(t)) {
			event_warn("the ACPI table %.4s is damaged and not used", signature);
			continue;
		}
		if (len)
			*len = t->length;
		return t;
	}
	return NULL;
}

/* -------------------------------------------------------------------- timers */

static u64 read_port32(const struct ref_timer *t)
{
	return inl((u16)t->base);
}

static u64 read_memory32(const struct ref_timer *t)
{
	return *(const volatile u32 *)t->base;
}

/* Channel 2 counts down; its latched value turned round, so that it counts up. */
static u64 read_pit(const struct ref_timer *t)
{
	u8 low, high;

	outb(0x43, 0x80);
	low = inb(0x42);
	high = inb(0x42);
	return 0xffffu - ((u32)high << 8 | low);
}

static u8 old_port61;
static bool port61_changed;

static bool start_pit(struct ref_timer *t)
{
	u64 before;

	if (!port61_changed)
		old_port61 = inb(0x61);
	port61_changed = true;
	outb(0x61, (u8)((old_port61 & ~2) | 1)); /* gate on, speaker off */
	outb(0x43, 0xb4);			  /* channel 2, both bytes, mode 2 */
	outb(0x42, 0xff);
	outb(0x42, 0xff);
	*t = (struct ref_timer){"pit", 1193182, 16, read_pit, 0};
	before = read_pit(t);
	for (unsigned i = 0; i < 1000; i++) {
		if (read_pit(t) != before)
			return true;
	}
	return false;
}

static bool find_pm_timer(struct ref_timer *t)
{
	size_t len;
	const u8 *fadt = platform_acpi_table("FACP", &len);
	u32 port, flags;

	if (!fadt || len < 116)
		return false;
	memcpy(&port, fadt + 76, 4);
	memcpy(&flags, fadt + 112, 4);
	if (!port || port > 0xffff)
		return false;
	/* FADT flags bit 8: 32 bits wide. */
	*t = (struct ref_timer){"acpi-pm", 3579545, flags & 0x100 ? 32 : 24, read_port32, port};
	return true;
}

#define HPET_PERIOD  4	  /* upper half of the capabilities: femtoseconds */
#define HPET_CONFIG  0x10 /* bit 0: counting */
#define HPET_COUNTER 0xf0

static volatile u32 *hpet_started;

static bool find_hpet(struct ref_timer *t)
{
	size_t len;
	const u8 *table = platform_acpi_table("HPET", &len);
	u64 base;
	u32 period;
	volatile u32 *config;

	if (!table || len < 56)
		return false;
	memcpy(&base, table + 44, 8);
	if (!base)
		return false;
	period = *(volatile u32 *)(base + HPET_PERIOD);
	if (!period || period > 100000000)
		return false;
	config = (volatile u32 *)(base + HPET_CONFIG);
	if (!(*config & 1)) {
		*config |= 1;
		hpet_started = config;
	}
	*t = (struct ref_timer){"hpet", 1000000000000000ull / period, 32, read_memory32,
				base + HPET_COUNTER};
	return true;
}

unsigned platform_ref_timers(struct ref_timer *timers, unsigned max)
{
	bool (*const finders[])(struct ref_timer *) = {find_pm_timer, find_hpet, start_pit};
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(finders) && n < max; i++)
		n += finders[i](&timers[n]);
	return n;
}

/* -------------------------------------------------------------------- names and the clock */

static char firmware_text[120], product_text[80], clock_text[32];

/* The n-th string behind an SMBIOS structure. */
static void smbios_string(const u8 *structure, u8 n, char *out, size_t len)
{
	const char *s = (const char *)structure + structure[1];

	for (; n > 1 && *s; n--) {
		while (*s)
			s++;
		s++;
	}
	if (n)
		mc_snprintf(out, len, "%s", s);
}

/* Two strings of a structure, one behind the other. */
static void smbios_two(const u8 *s, u8 first, u8 second, const char *before, char *out, size_t len)
{
	char a[40] = "", b[36] = "";

	smbios_string(s, first, a, sizeof(a));
	smbios_string(s, second, b, sizeof(b));
	if (*a || *b)
		mc_snprintf(out, len, "%s%s%s%s", before, a, *a && *b ? " " : "", b);
}

/*
 * SMBIOS 3.6, 7.1 and 7.2. The revision in the system table is often that of the code base and stays
 * through updates; what a vendor counts up is the BIOS version and its date.
 */
static void read_smbios(const u8 *table, u32 bytes)
{
	const u8 *end = table + bytes;
	size_t n = 0;

	while (firmware_text[n])
		n++;
	while (table + 4 < end && table[1] >= 4 && table[0] != 127 /* the end */) {
		const u8 *next = table + table[1];

		if (table[0] == 0 && table[1] > 8)
			smbios_two(table, table[5], table[8], ", ", firmware_text + n,
				   sizeof(firmware_text) - n);
		if (table[0] == 1 && table[1] > 6)
			smbios_two(table, table[4], table[5], "", product_text,
				   sizeof(product_text));
		while (next + 1 < end && (next[0] || next[1]))
			next++;
		table = next + 2;
	}
}

static void find_smbios(void)
{
	static const EFI_GUID smbios3 = {
		0xf2fd1544, 0x9794, 0x4a2c, {0x99, 0x2e, 0xe5, 0xbb, 0xcf, 0x20, 0xe3, 0x94}};
	static const EFI_GUID smbios = SMBIOS_TABLE_GUID;
	const u8 *entry = config_table(&smbios3);
	u64 at = 0;
	u32 bytes = 0;

	if (entry && !memcmp(entry, "_SM3_", 5)) {
		memcpy(&bytes, entry + 12, 4);
		memcpy(&at, entry + 16, 8);
	} else if ((entry = config_table(&smbios)) && !memcmp(entry, "_SM_", 4)) {
		u16 length16;
		u32 at32;

		memcpy(&length16, entry + 22, 2);
		memcpy(&at32, entry + 24, 4);
		bytes = length16;
		at = at32;
	}
	if (at)
		read_smbios((const u8 *)at, bytes);
}

const char *platform_firmware(void)
{
	const CHAR16 *vendor = fw_st->FirmwareVendor;
	size_t n = 0;

	if (*firmware_text)
		return firmware_text;
	while (vendor && vendor[n] && n < 48) {
		firmware_text[n] = vendor[n] < 0x7f ? (char)vendor[n] : '?';
		n++;
	}
	mc_snprintf(firmware_text + n, sizeof(firmware_text) - n, " %u.%u",
		    fw_st->FirmwareRevision >> 16, fw_st->FirmwareRevision & 0xffff);
	find_smbios();
	return firmware_text;
}

const char *platform_product(void)
{
	platform_firmware();
	return product_text;
}

const char *platform_clock(void)
{
	EFI_TIME t;

	clock_text[0] = 0;
	if (fw_st->RuntimeServices->GetTime(&t, NULL) == EFI_SUCCESS && t.Year >= 1998 &&
	    t.Month >= 1 && t.Month <= 12)
		mc_snprintf(clock_text, sizeof(clock_text), "%04u-%02u-%02uT%02u:%02u:%02uZ", t.Year,
			    t.Month, t.Day, t.Hour, t.Minute, t.Second);
	return clock_text;
}

bool platform_ring0(void)
{
	return true;
}

void hardware_end(void)
{
	if (hpet_started)
		*hpet_started &= ~1u;
	if (port61_changed)
		outb(0x61, old_port61);
}
