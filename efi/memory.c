/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory from the firmware within the budget, and mcspin's own top-level page table: the firmware's
 * entries plus one free slot. In the slot lie the arena's window, its alias, and a second mapping
 * of the text. No table of the firmware's is ever written.
 */
#include "firmware.h"
#include "cpu.h"
#include "../src/platform.h"

#define PTE_PRESENT (1ul << 0)
#define PTE_WRITE   (1ul << 1)
#define PTE_USER    (1ul << 2)
#define PTE_LARGE   (1ul << 7)
#define PTE_NX	    (1ul << 63)
#define PTE_ADDR    0x000ffffffffff000ul
#define TABLE_BITS  9
#define ENTRIES	    512

/* One last-level table of 512 pages: window, alias, text. */
#define ALIAS_AT ARENA_PAGES
#define TEXT_AT	 (2 * ARENA_PAGES)

static u64 own_cr3, *last_table, *upper_table; /* upper: whose entry 0 is the last */
static u8 *slot_base, *arena_memory;
static u64 taken; /* bytes from the firmware */

/* What is held, to give it back: an application's pages outlive it otherwise. */
static struct {
	u64 at, pages;
} held[512];

/* Referee mode: the control processor may not call the firmware, so memory comes from this. */
static u8 *pool;
static size_t pool_bytes, pool_used;
static const char *arena_why = "the arena is not set up yet";
static const u8 *text_first;
static size_t text_pages;

/* From linker/mcspin.lds. */
extern u8 _text[], _etext[];

u64 memory_cr3(void)
{
	return own_cr3;
}

static u64 budget(void)
{
	return (64ul << 20) + (64ul << 10) * platform_cpus();
}

static bool hold(u64 at, u64 pages)
{
	for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
		if (!held[i].pages) {
			held[i].at = at;
			held[i].pages = pages;
			return true;
		}
	}
	return false;
}

static void *from_pool(size_t bytes)
{
	u8 *p = pool + pool_used;

	bytes = align_up(bytes, (size_t)PAGE_SIZE);
	if (bytes > pool_bytes - pool_used)
		return NULL;
	pool_used += bytes;
	memset(p, 0, bytes);
	return p;
}

#define FOUR_GIB     (1ul << 32)
#define MAP_BYTES    (24 << 10)
#define MEMORY_SP    0x40000ul /* UEFI 2.10, 7.2.3: kept for a purpose, as far memory behind CXL is */
#define PAGES_AT_END(d, pages) ((d)->PhysicalStart + ((d)->NumberOfPages - (pages)) * PAGE_SIZE)

/* The end of the largest free stretch above 4 GiB, 0 if none holds `pages`. Asking for "at most this
 * address" is not enough: edk2 looks below its own reserved stretches first, which lie lower. */
static EFI_PHYSICAL_ADDRESS high_place(UINTN pages)
{
	static u8 buf[MAP_BYTES] __aligned(8);
	const EFI_MEMORY_DESCRIPTOR *best = NULL;
	UINTN size = sizeof(buf), key, step = 0;
	UINT32 version;

	if (fw_bs->GetMemoryMap(&size, (EFI_MEMORY_DESCRIPTOR *)buf, &key, &step, &version) !=
	    EFI_SUCCESS)
		return 0;
	for (const u8 *p = buf; p < buf + size; p += step) {
		const EFI_MEMORY_DESCRIPTOR *d = (const EFI_MEMORY_DESCRIPTOR *)p;

		if (d->Type == EfiConventionalMemory && d->PhysicalStart >= FOUR_GIB &&
		    (d->Attribute & (EFI_MEMORY_WB | MEMORY_SP)) == EFI_MEMORY_WB &&
		    d->NumberOfPages >= pages && (!best || d->NumberOfPages > best->NumberOfPages))
			best = d;
	}
	return best ? PAGES_AT_END(best, pages) : 0;
}

static void *taken_at(EFI_PHYSICAL_ADDRESS at, UINTN pages)
{
	if (!hold(at, pages)) {
		fw_bs->FreePages(at, pages);
		return NULL;
	}
	taken += pages * PAGE_SIZE;
	memset((void *)at, 0, pages * PAGE_SIZE);
	return (void *)at;
}

/* Above 4 GiB where there is such memory: less of what the firmware needs, and the case that breaks
 * careless code is then the usual one. */
void *platform_alloc(size_t bytes)
{
	UINTN pages = (bytes + PAGE_SIZE - 1) / PAGE_SIZE;
	EFI_PHYSICAL_ADDRESS at;

	if (!fw_callable())
		return from_pool(bytes);
	if (taken + pages * PAGE_SIZE > budget())
		return NULL;
	at = high_place(pages);
	if (at && fw_bs->AllocatePages(AllocateAddress, EfiLoaderData, pages, &at) == EFI_SUCCESS)
		return taken_at(at, pages);
	if (fw_bs->AllocatePages(AllocateAnyPages, EfiLoaderData, pages, &at) == EFI_SUCCESS)
		return taken_at(at, pages);
	return NULL;
}

static bool in_pool(const void *p)
{
	return pool && (const u8 *)p >= pool && (const u8 *)p < pool + pool_bytes;
}

void platform_free(void *p, size_t bytes)
{
	UINTN pages = (bytes + PAGE_SIZE - 1) / PAGE_SIZE;

	/* Last in, first out is how the referee's buffers come and go; the rest waits for the end. */
	if (in_pool(p)) {
		if ((u8 *)p + pages * PAGE_SIZE == pool + pool_used)
			pool_used -= pages * PAGE_SIZE;
		return;
	}
	if (!fw_callable())
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
		if (held[i].at == (u64)p && held[i].pages == pages)
			held[i].pages = 0;
	}
	if (fw_bs->FreePages((EFI_PHYSICAL_ADDRESS)p, pages) == EFI_SUCCESS)
		taken -= pages * PAGE_SIZE;
}

bool memory_pool(size_t bytes)
{
	pool = platform_alloc(bytes);
	pool_bytes = pool ? bytes : 0;
	return pool != NULL;
}

void platform_keep(const void *p)
{
	for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
		if (held[i].at == (u64)p)
			held[i].pages = 0;
	}
}

void memory_end(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
		if (held[i].pages)
			fw_bs->FreePages(held[i].at, held[i].pages);
	}
	memset(held, 0, sizeof(held));
}

/* -------------------------------------------------------------------- walking */

static unsigned levels(void)
{
	return read_cr4() & X86_CR4_LA57 ? 5 : 4;
}

/* The leaf entry for an address, and the AND of the user bits on the way. */
static u64 walk(const void *address, bool *user)
{
	u64 *table = (u64 *)(read_cr3() & PTE_ADDR);

	*user = true;
	for (unsigned level = levels(); level; level--) {
		u64 entry = table[(u64)address >> (12 + TABLE_BITS * (level - 1)) & (ENTRIES - 1)];

		if (!(entry & PTE_PRESENT))
			return 0;
		*user = *user && (entry & PTE_USER);
		if (level == 1 || (level <= 3 && (entry & PTE_LARGE)))
			return entry;
		table = (u64 *)(entry & PTE_ADDR);
	}
	return 0;
}

u64 memory_pte(const void *address)
{
	bool user;

	return walk(address, &user);
}

bool memory_user_free(void)
{
	const void *const samples[] = {_text, &own_cr3, &samples, (void *)fw_bs,
				       (void *)fw_st->RuntimeServices, (void *)fw_bs->Stall};
	bool user;

	for (unsigned i = 0; i < ARRAY_SIZE(samples); i++) {
		if (!walk(samples[i], &user) || user)
			return false;
	}
	return true;
}

/* -------------------------------------------------------------------- the slot */

static void map(unsigned page, const void *physical, u64 rights)
{
	last_table[page] = ((u64)physical & PTE_ADDR) | rights;
}

/* Tables from below the top down to the last level, one each. */
static u64 *build_chain(unsigned count)
{
	u64 *upper = NULL, *first = NULL;

	while (count--) {
		u64 *table = platform_alloc(PAGE_SIZE);

		if (!table)
			return NULL;
		if (upper)
			upper[0] = (u64)table | PTE_PRESENT | PTE_WRITE | PTE_USER;
		else
			first = table;
		upper_table = upper;
		upper = table;
	}
	last_table = upper;
	return first;
}

/* Stacks lie in their own last-level tables, STACK_SLOT pages each, the lowest of them absent. */
#define STACK_SLOT	 16
#define STACKS_PER_TABLE (ENTRIES / STACK_SLOT)

u8 *memory_guarded_stack(unsigned cpu, const u8 *physical, size_t bytes)
{
	unsigned which = 1 + cpu / STACKS_PER_TABLE, first = cpu % STACKS_PER_TABLE * STACK_SLOT;
	u64 *table, pages = bytes / PAGE_SIZE;

	if (!slot_base || which >= ENTRIES || pages >= STACK_SLOT)
		return NULL;
	if (!upper_table[which]) {
		table = platform_alloc(PAGE_SIZE);
		if (!table)
			return NULL;
		upper_table[which] = (u64)table | PTE_PRESENT | PTE_WRITE | PTE_USER;
	}
	table = (u64 *)(upper_table[which] & PTE_ADDR);
	for (u64 i = 0; i < pages; i++)
		table[first + 1 + i] = ((u64)physical + i * PAGE_SIZE) | PTE_PRESENT | PTE_WRITE |
				       PTE_NX;
	return slot_base + ((u64)which * ENTRIES + first + 1) * PAGE_SIZE;
}

static unsigned free_slot(const u64 *top)
{
	for (unsigned slot = ENTRIES / 2 - 1; slot; slot--) {
		if (!top[slot])
			return slot;
	}
	return 0;
}

static void map_all(void)
{
	text_first = (const u8 *)((u64)_text & ~(PAGE_SIZE - 1ul));
	text_pages = min_of(((u64)_etext - (u64)text_first + PAGE_SIZE - 1) / PAGE_SIZE,
			    (u64)ENTRIES - TEXT_AT);
	for (unsigned i = 0; i < ARENA_PAGES; i++) {
		u8 *page = arena_memory + i * PAGE_SIZE;

		map(i, page, PTE_PRESENT | PTE_WRITE | PTE_NX);
		map(ALIAS_AT + i, page, PTE_PRESENT | PTE_WRITE | PTE_NX);
	}
	for (size_t i = 0; i < text_pages; i++)
		map(TEXT_AT + i, text_first + i * PAGE_SIZE, PTE_PRESENT | PTE_NX);
}

void memory_start(void)
{
	u64 *firmware_top = (u64 *)(read_cr3() & PTE_ADDR);
	unsigned slot = free_slot(firmware_top);
	u64 *top, *chain;

	if (!slot) {
		arena_why = "the firmware's top-level page table has no free entry";
		return;
	}
	top = platform_alloc(PAGE_SIZE);
	arena_memory = platform_alloc(ARENA_PAGES * PAGE_SIZE);
	chain = build_chain(levels() - 1);
	if (!top || !arena_memory || !chain) {
		arena_why = "no memory for the arena";
		return;
	}
	memcpy(top, firmware_top, PAGE_SIZE);
	top[slot] = (u64)chain | PTE_PRESENT | PTE_WRITE | PTE_USER;
	map_all();
	slot_base = (u8 *)((u64)slot << (12 + TABLE_BITS * (levels() - 1)));
	own_cr3 = (u64)top | (read_cr3() & ~PTE_ADDR & 0xfff);
	arena_why = NULL;
}

u8 *platform_arena(void)
{
	return slot_base;
}

u8 *platform_arena_alias(void)
{
	return slot_base ? slot_base + ALIAS_AT * PAGE_SIZE : NULL;
}

const char *platform_arena_missing(void)
{
	return arena_why;
}

bool platform_arena_has_user(void)
{
	return true;
}

int platform_arena_protect(unsigned page, unsigned count, enum arena_rights rights)
{
	static const u64 bits[] = {
		[ARENA_ABSENT] = 0,
		[ARENA_READ_ONLY] = PTE_PRESENT | PTE_NX,
		[ARENA_READ_WRITE] = PTE_PRESENT | PTE_WRITE | PTE_NX,
		[ARENA_USER] = PTE_PRESENT | PTE_WRITE | PTE_USER | PTE_NX,
	};

	if (!slot_base || page + count > ARENA_PAGES)
		return -EINVAL;
	for (; count; count--, page++) {
		map(page, arena_memory + page * PAGE_SIZE, bits[rights]);
		invlpg(slot_base + page * PAGE_SIZE);
	}
	return 0;
}

const u8 *memory_text_alias(const void *text)
{
	size_t offset = (size_t)((const u8 *)text - text_first);

	if (!slot_base || (const u8 *)text < text_first || offset >= text_pages * PAGE_SIZE)
		return NULL;
	return slot_base + TEXT_AT * PAGE_SIZE + offset;
}

static u64 count_memory(void)
{
	UINTN size = 0, key, step;
	UINT32 version;
	u64 bytes = 0;
	u8 *map_buf;

	fw_bs->GetMemoryMap(&size, NULL, &key, &step, &version);
	size += 4096;
	map_buf = platform_alloc(size);
	if (!map_buf)
		return 0;
	if (fw_bs->GetMemoryMap(&size, (EFI_MEMORY_DESCRIPTOR *)map_buf, &key, &step, &version) ==
	    EFI_SUCCESS) {
		for (u8 *p = map_buf; p < map_buf + size; p += step) {
			const EFI_MEMORY_DESCRIPTOR *d = (const EFI_MEMORY_DESCRIPTOR *)p;

			/* Installed memory, not what is free at this moment: stable between runs. */
			if (d->Type != EfiMemoryMappedIO && d->Type != EfiMemoryMappedIOPortSpace &&
			    d->Type != EfiReservedMemoryType)
				bytes += d->NumberOfPages * PAGE_SIZE;
		}
	}
	platform_free(map_buf, size);
	return bytes;
}

u64 platform_memory_bytes(void)
{
	static u64 bytes;

	/* Asked again in referee mode, where the firmware is out of reach. */
	if (!bytes && fw_callable())
		bytes = count_memory();
	return bytes;
}
