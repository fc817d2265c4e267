/* SPDX-License-Identifier: GPL-2.0-only */
/* The firmware's page tables, edited. They lie in read-only pages, so CR0.WP is off meanwhile. */
#include "hostile.h"

#define PRESENT	 1ull
#define WRITABLE 2ull
#define LARGE	 0x80ull
#define ADDRESS	 0x000ffffffffff000ull

static UINT64 read_cr0(void)
{
	UINT64 v;

	__asm__ volatile("movq %%cr0, %0" : "=r"(v));
	return v;
}

static void write_cr0(UINT64 v)
{
	__asm__ volatile("movq %0, %%cr0" ::"r"(v) : "memory");
}

static UINT64 *top(void)
{
	UINT64 v;

	__asm__ volatile("movq %%cr3, %0" : "=r"(v));
	return (UINT64 *)(v & ADDRESS);
}

static void flush(void)
{
	__asm__ volatile("movq %%cr3, %%rax; movq %%rax, %%cr3" ::: "rax", "memory");
}

/* 512 smaller entries with the large one's rights. */
static UINT64 *split(UINT64 *entry, unsigned level)
{
	EFI_PHYSICAL_ADDRESS at = 0xffffffff;
	UINT64 step = level == 3 ? 1ull << 21 : 1ull << 12, old = *entry, *table;

	if (BS->AllocatePages(AllocateMaxAddress, EfiBootServicesData, 1, &at) != EFI_SUCCESS)
		return NULL;
	table = (UINT64 *)at;
	for (unsigned i = 0; i < 512; i++) {
		table[i] = old + i * step;
		if (level == 2)
			table[i] &= ~LARGE;
	}
	*entry = at | PRESENT | WRITABLE | (old & 4);
	return table;
}

static UINT64 *leaf(UINT64 address, int may_split)
{
	UINT64 *table = top();

	for (unsigned level = 4; level > 1; level--) {
		UINT64 *entry = &table[address >> (12 + 9 * (level - 1)) & 511];

		if (!(*entry & PRESENT))
			return NULL;
		if (level < 4 && (*entry & LARGE)) {
			if (!may_split)
				return entry;
			table = split(entry, level);
			if (!table)
				return NULL;
		} else {
			table = (UINT64 *)(*entry & ADDRESS);
		}
	}
	return &table[address >> 12 & 511];
}

int page_set_writable(UINT64 address, int writable)
{
	UINT64 cr0 = read_cr0(), *entry;

	write_cr0(cr0 & ~0x10000ull);
	entry = leaf(address, 1);
	if (entry)
		*entry = writable ? *entry | WRITABLE : *entry & ~WRITABLE;
	flush();
	write_cr0(cr0);
	return entry != NULL;
}

int page_writable(UINT64 address)
{
	UINT64 *entry = leaf(address, 0);

	return entry && (*entry & WRITABLE);
}
