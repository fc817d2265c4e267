/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Making mcspin's own text writable, in whichever of three ways this firmware allows, and putting
 * it back. Interrupts are off in between.
 */
#include "firmware.h"
#include "cpu.h"
#include "memattr.h"
#include "../src/platform.h"

#define PTE_WRITE (1ul << 1)

extern u8 _text[], _etext[]; /* linker/mcspin.lds, both on page boundaries */

static EFI_GUID memattr_guid = MCSPIN_MEMORY_ATTRIBUTE_GUID;
static enum text_way way;
static unsigned long flags;

static u64 text_bytes(void)
{
	return align_up((u64)(_etext - _text), (u64)PAGE_SIZE);
}

static bool writable(void)
{
	return memory_pte(_text) & PTE_WRITE && memory_pte(_text + text_bytes() - 1) & PTE_WRITE;
}

/* The protocol changes the firmware's tables, which mcspin's share below the top level. */
static bool by_protocol(bool open)
{
	struct memory_attribute *ma = fw_callable() ? fw_protocol(&memattr_guid) : NULL;
	EFI_STATUS status;

	if (!ma)
		return false;
	fw_tables_begin();
	if (open)
		status = FW(ma->clear(ma, (u64)_text, text_bytes(), MEMATTR_RO));
	else
		status = FW(ma->set(ma, (u64)_text, text_bytes(), MEMATTR_RO));
	fw_tables_end();
	return status == EFI_SUCCESS;
}

enum text_way platform_text_open(void)
{
	way = TEXT_WAY_NONE;
	if (writable())
		way = TEXT_WAY_WRITABLE;
	else if (by_protocol(true) && writable())
		way = TEXT_WAY_PROTOCOL;
	else if (!(read_cr4() & X86_CR4_CET))
		way = TEXT_WAY_WP; /* with CET on, clearing CR0.WP faults */
	if (way == TEXT_WAY_NONE)
		return way;
	flags = platform_irq_save();
	if (way == TEXT_WAY_WP)
		write_cr0(read_cr0() & ~X86_CR0_WP);
	return way;
}

void platform_text_close(void)
{
	if (way == TEXT_WAY_WP)
		write_cr0(read_cr0() | X86_CR0_WP);
	platform_irq_restore(flags);
	if (way == TEXT_WAY_PROTOCOL)
		by_protocol(false);
	way = TEXT_WAY_NONE;
}

void platform_text_range(u8 **start, u8 **end)
{
	*start = _text;
	*end = _etext;
}

int platform_text_read(const void *text, void *buf, size_t len)
{
	const u8 *alias = memory_text_alias(text);

	/* Without the arena there is no other mapping; the same one is better than no look. */
	memcpy(buf, alias ? alias : text, len);
	return 0;
}
