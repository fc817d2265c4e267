/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What mcspin borrows and must give back, looked at before it is loaded and after it is gone, on the
 * boot processor and on every other one: control and debug registers, descriptor tables with what
 * is in them, MSRs, timers, and the pages of the kind that it takes.
 */
#include "hostile.h"
#include "../../efi/mp.h"

#define CPUS	  16
#define SPARE	  4 /* pages that may stay: TSSs which a task register points to, 39 to a page */
#define HPET_BASE 0xfed00000ull

struct table {
	UINT16 limit;
	UINT64 base;
} __attribute__((packed));

/* One processor. */
static struct state {
	UINT64 cr0, cr3, cr4, dr7, efer, gs, xcr0, misc_enable;
	UINT64 gdt, gdt_hash, idt, idt_hash;
	UINT64 flags; /* DF, AC, TF */
	int here;
} states[2][CPUS];

static UINT64 pages[2];
static UINT32 hpet[2];
static UINT8 port61[2];
static int round;

static EFI_GUID mp_guid = MCSPIN_MP_SERVICES_GUID;
static struct mp_services *mp;

static UINT64 rdmsr(UINT32 msr)
{
	UINT32 low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (UINT64)high << 32 | low;
}

/* ECX of leaf 1, EBX of leaf 0. */
static UINT32 cpuid(UINT32 leaf)
{
	UINT32 a = leaf, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return leaf ? c : b;
}

static UINT64 hash(const struct table *t)
{
	const UINT8 *p = (const UINT8 *)t->base;
	UINT64 h = 0xcbf29ce484222325ull;

	for (UINTN i = 0; i <= t->limit; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

static void look(struct state *s)
{
	struct table gdt, idt;
	UINT32 low = 0, high = 0;

	__asm__ volatile("movq %%cr0, %0" : "=r"(s->cr0));
	__asm__ volatile("movq %%cr3, %0" : "=r"(s->cr3));
	__asm__ volatile("movq %%cr4, %0" : "=r"(s->cr4));
	__asm__ volatile("movq %%dr7, %0" : "=r"(s->dr7));
	__asm__ volatile("sgdt %0" : "=m"(gdt));
	__asm__ volatile("sidt %0" : "=m"(idt));
	__asm__ volatile("pushfq; popq %0" : "=r"(s->flags));
	s->cr0 &= ~8ull; /* TS comes and goes */
	s->flags &= 0x40500;
	s->efer = rdmsr(0xc0000080);
	s->gs = rdmsr(0xc0000101);
	s->misc_enable = cpuid(0) == 0x756e6547 /* Genu */ ? rdmsr(0x1a0) : 0;
	s->gdt = gdt.base ^ gdt.limit;
	s->idt = idt.base ^ idt.limit;
	s->gdt_hash = hash(&gdt);
	s->idt_hash = hash(&idt);
	/* XCR0 can be read only where OSXSAVE is on: switched on for the look. */
	if (cpuid(1) >> 26 & 1) {
		__asm__ volatile("movq %0, %%cr4" ::"r"(s->cr4 | 1ull << 18));
		__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
		__asm__ volatile("movq %0, %%cr4" ::"r"(s->cr4));
	}
	s->xcr0 = (UINT64)high << 32 | low;
	s->here = 1;
}

static VOID EFIAPI look_here(VOID *unused)
{
	UINTN number = 0;

	mp->who_am_i(mp, &number);
	if (number < CPUS)
		look(&states[round][number]);
}

/* -------------------------------------------------------------------- what it takes */

static EFI_ALLOCATE_PAGES real_allocate;
static EFI_FREE_PAGES real_free;
static UINT64 taken, most;

/* Memory holds what somebody left there. */
static EFI_STATUS EFIAPI allocate(EFI_ALLOCATE_TYPE type, EFI_MEMORY_TYPE kind, UINTN n,
				  EFI_PHYSICAL_ADDRESS *at)
{
	EFI_STATUS status = real_allocate(type, kind, n, at);

	if (status != EFI_SUCCESS || kind != EfiLoaderData)
		return status;
	SetMem((void *)*at, n << 12, 0xa5);
	taken += n;
	most = taken > most ? taken : most;
	return status;
}

static EFI_STATUS EFIAPI give(EFI_PHYSICAL_ADDRESS at, UINTN n)
{
	EFI_STATUS status = real_free(at, n);

	if (status == EFI_SUCCESS && n <= taken)
		taken -= n;
	return status;
}

static void watch_pages(void)
{
	real_allocate = BS->AllocatePages;
	real_free = BS->FreePages;
	BS->AllocatePages = allocate;
	BS->FreePages = give;
}

/* Boot services' data come and go with every call; an application's own kind does not. */
static UINT64 loader_data(void)
{
	static UINT8 map[64 << 10];
	UINTN size = sizeof(map), key, step;
	UINT64 n = 0;
	UINT32 version;

	if (BS->GetMemoryMap(&size, (EFI_MEMORY_DESCRIPTOR *)map, &key, &step, &version) != EFI_SUCCESS)
		return 0;
	for (UINT8 *p = map; p < map + size; p += step) {
		const EFI_MEMORY_DESCRIPTOR *d = (const EFI_MEMORY_DESCRIPTOR *)p;

		n += d->Type == EfiLoaderData ? d->NumberOfPages : 0;
	}
	return n;
}

void state_look(void)
{
	UINT8 v;

	/* Where one processor is lost, asking it would hang this program. */
	if (!mp && !way("mp-lost") && BS->LocateProtocol(&mp_guid, NULL, (void **)&mp) != EFI_SUCCESS)
		mp = NULL;
	look(&states[round][0]);
	if (mp)
		mp->startup_all(mp, look_here, FALSE, NULL, 2000000, NULL, NULL);
	pages[round] = loader_data();
	hpet[round] = *(volatile UINT32 *)(HPET_BASE + 0x10) & 1;
	__asm__ volatile("inb $0x61, %0" : "=a"(v));
	port61[round] = v & 3;
	if (!round)
		watch_pages();
	round = 1;
}

static unsigned differ(const char *what, UINTN cpu, UINT64 before, UINT64 after)
{
	if (before == after)
		return 0;
	say("not given back: %a of processor %ld was %lx and is %lx", what, cpu, before, after);
	return 1;
}

void state_compare(void)
{
	unsigned bad = 0, seen = 0;

	for (UINTN cpu = 0; cpu < CPUS; cpu++) {
		const struct state *a = &states[0][cpu], *b = &states[1][cpu];

#define SAME(field) bad += differ(#field, cpu, (UINT64)a->field, (UINT64)b->field)
		SAME(here);
		SAME(cr0);
		SAME(cr3);
		SAME(cr4);
		SAME(dr7);
		SAME(efer);
		SAME(gs);
		SAME(xcr0);
		SAME(misc_enable);
		SAME(gdt);
		SAME(gdt_hash);
		SAME(idt);
		SAME(idt_hash);
		SAME(flags);
		seen += b->here;
	}
	bad += differ("HPET", 0, hpet[0], hpet[1]);
	bad += differ("port 0x61", 0, port61[0], port61[1]);
	if (pages[1] > pages[0] + SPARE || pages[1] < pages[0])
		bad += differ("loader pages", 0, pages[0], pages[1]);
	if (!bad)
		say("all given back on %d processors, %ld pages stay of %ld", seen, pages[1] - pages[0],
		    most);
}
