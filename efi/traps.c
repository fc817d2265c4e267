/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Each processor's descriptor tables and stacks. The GDT is the firmware's entries plus a TSS behind
 * them, because firmware services load the firmware's selectors; the IDT is the firmware's with the
 * exceptions replaced. A TSS cannot be taken out of TR again; the one that stays behind is harmless:
 * the firmware's gates use no stack of it.
 */
#include "firmware.h"
#include "cpu.h"
#include "../src/cpu/features.h"
#include "../src/cpu/percpu.h"
#include "../src/osq/osq.h"
#include "../src/platform.h"
#include "../src/trap/trap.h"

#define STACK_BYTES  (32 << 10)
#define IST_BYTES    (7 << 10)
#define GDT_BYTES    1024
#define CANARY	     0x6d637370696e2121ul
#define CANARY_WORDS 8
#define EXCEPTIONS   32
#define IDT_ENTRIES  256

enum { IST_NMI = 1, IST_DF, IST_MC, IST_COUNT = 3 };

struct __packed tss {
	u32 reserved0;
	u64 rsp[3], reserved1, ist[7], reserved2;
	u16 reserved3, iomap;
};
static_assert(sizeof(struct tss) == 104, "Intel SDM vol. 3A, figure 8-11");

struct __packed gate {
	u16 offset_low, selector;
	u8 ist, type;
	u16 offset_mid;
	u32 offset_high, reserved;
};
static_assert(sizeof(struct gate) == 16, "Intel SDM vol. 3A, figure 6-8");

/* What the firmware had on this processor. */
struct saved {
	struct table_register gdt, idt;
	u64 cr0, cr3, cr4, gs_base, dr7;
	u16 tr;
	bool valid;
};

struct cpu_area {
	u8 stack[STACK_BYTES];
	u8 ist[IST_COUNT][IST_BYTES];
	struct percpu percpu;
	u8 gdt[GDT_BYTES] __aligned(16);
	struct tss *tss;
	u8 *guarded; /* the stack's lowest byte where a page that faults lies below it, or NULL */
	u16 tss_selector;
	struct saved saved;
} __aligned(PAGE_SIZE);
static_assert(sizeof(struct cpu_area) <= 64 << 10, "the budget: 64 KiB a processor");

static struct cpu_area *areas;
static struct tss *tss_pages; /* apart, because they outlive the run where TR was null before */
static struct gate *idt;
static bool use_smap;

extern u8 trap_stubs[]; /* asm/trap_entry.S: 16 bytes each */

struct cpu_area *traps_area(unsigned cpu)
{
	return &areas[cpu];
}

void *traps_stack_top(unsigned cpu)
{
	return (areas[cpu].guarded ? areas[cpu].guarded : areas[cpu].stack) + STACK_BYTES;
}

bool traps_overrun(unsigned cpu, u64 sp)
{
	u64 bottom = (u64)(areas[cpu].guarded ? areas[cpu].guarded : areas[cpu].stack);

	return cpu && sp >= bottom - PAGE_SIZE && sp < bottom + CANARY_WORDS * 8 + 512;
}

/* The lowest words of each stack: an overrun of one ends in the next, so each has its own. */
static void set_canaries(struct cpu_area *a)
{
	u64 *const bottoms[] = {(u64 *)a->stack, (u64 *)a->ist[0], (u64 *)a->ist[1],
				(u64 *)a->ist[2]};

	for (unsigned i = 0; i < ARRAY_SIZE(bottoms); i++) {
		for (unsigned w = 0; w < CANARY_WORDS; w++)
			bottoms[i][w] = CANARY;
	}
}

bool traps_canaries(unsigned cpu)
{
	struct cpu_area *a = &areas[cpu];
	const u64 *const bottoms[] = {(u64 *)a->stack, (u64 *)a->ist[0], (u64 *)a->ist[1],
				      (u64 *)a->ist[2]};

	for (unsigned i = 0; i < ARRAY_SIZE(bottoms); i++) {
		for (unsigned w = 0; w < CANARY_WORDS; w++) {
			if (bottoms[i][w] != CANARY)
				return false;
		}
	}
	return true;
}

static void set_gate(unsigned vector, u16 selector)
{
	u64 stub = (u64)trap_stubs + 16 * vector;
	u8 ist = vector == X86_TRAP_NMI	 ? IST_NMI
		 : vector == X86_TRAP_DF ? IST_DF
		 : vector == X86_TRAP_MC ? IST_MC
					 : 0;

	idt[vector] = (struct gate){
		.offset_low = (u16)stub,
		.selector = selector,
		.ist = ist,
		.type = 0x8e, /* present, interrupt gate */
		.offset_mid = (u16)(stub >> 16),
		.offset_high = (u32)(stub >> 32),
	};
}

int traps_start(unsigned cpus)
{
	struct table_register old;
	u16 cs;

	areas = platform_alloc(cpus * sizeof(*areas));
	idt = platform_alloc(IDT_ENTRIES * sizeof(*idt));
	tss_pages = platform_alloc(cpus * sizeof(*tss_pages));
	if (!areas || !idt || !tss_pages)
		return -ENOMEM;
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		areas[cpu].tss = &tss_pages[cpu];
		areas[cpu].guarded = memory_guarded_stack(cpu, areas[cpu].stack, STACK_BYTES);
	}
	__asm__ volatile("sidt %0" : "=m"(old));
	__asm__ volatile("movw %%cs, %0" : "=r"(cs));
	memcpy(idt, (void *)old.base, min_of((size_t)old.limit + 1, IDT_ENTRIES * sizeof(*idt)));
	for (unsigned v = 0; v < EXCEPTIONS; v++)
		set_gate(v, cs);
	use_smap = memory_user_free();
	return 0;
}

void platform_mask_features(struct machine *m)
{
	if (!use_smap) {
		setup_clear_cpu_cap(m, X86_FEATURE_SMAP, "the firmware's own pages are user pages");
		setup_clear_cpu_cap(m, X86_FEATURE_SMEP, "the firmware's own pages are user pages");
	}
}

/* -------------------------------------------------------------------- one processor */

static void save(struct saved *s)
{
	__asm__ volatile("sgdt %0" : "=m"(s->gdt));
	__asm__ volatile("sidt %0" : "=m"(s->idt));
	s->cr0 = read_cr0();
	s->cr3 = read_cr3();
	s->cr4 = read_cr4();
	s->gs_base = rdmsr(MSR_GS_BASE);
	s->dr7 = read_dr7();
	__asm__ volatile("str %0" : "=r"(s->tr));
	s->valid = true;
}

static void load_gdt(const void *base, size_t bytes)
{
	struct table_register r = {(u16)(bytes - 1), (u64)base};

	__asm__ volatile("lgdt %0" ::"m"(r) : "memory");
}

static void load_idt(const void *base, size_t bytes)
{
	struct table_register r = {(u16)(bytes - 1), (u64)base};

	__asm__ volatile("lidt %0" ::"m"(r) : "memory");
}

/* The firmware's entries, then the TSS on the next 16 bytes. */
static void build_gdt(struct cpu_area *a)
{
	size_t bytes = min_of((size_t)a->saved.gdt.limit + 1, (size_t)GDT_BYTES - 16);
	size_t at = (bytes + 15) & ~15ul;
	u64 base = (u64)a->tss, *d = (u64 *)(a->gdt + at);

	at = min_of(at, (size_t)GDT_BYTES - 16);
	memcpy(a->gdt, (void *)a->saved.gdt.base, bytes);
	d[0] = (sizeof(struct tss) - 1) | (base & 0xffffff) << 16 | 0x89ul << 40 |
	       (base >> 24 & 0xff) << 56;
	d[1] = base >> 32;
	a->tss_selector = (u16)at;
	a->tss->iomap = sizeof(struct tss);
	for (unsigned i = 0; i < IST_COUNT; i++)
		a->tss->ist[i] = (u64)(a->ist[i] + IST_BYTES) & ~15ul;
}

static bool cpuid7_ebx(unsigned bit)
{
	struct cpuid_regs r;

	return cpuid_read(&cpu_source_live, 7, 0, &r) && (r.ebx >> bit & 1);
}

void traps_load(unsigned cpu)
{
	struct cpu_area *a = &areas[cpu];
	u64 cr4;

	save(&a->saved);
	build_gdt(a);
	set_canaries(a);
	a->percpu.self = &a->percpu;
	a->percpu.cpu = cpu;
	a->percpu.apic_id = platform_apic_id(cpu);
	a->percpu.arch = a;
	load_gdt(a->gdt, a->tss_selector + 16ul);
	__asm__ volatile("ltr %0" ::"r"(a->tss_selector));
	load_idt(idt, IDT_ENTRIES * sizeof(*idt));
	wrmsr(MSR_GS_BASE, (u64)&a->percpu);
	cr4 = a->saved.cr4 | X86_CR4_MCE;
	if (use_smap && cpuid7_ebx(7))
		cr4 |= X86_CR4_SMEP;
	if (use_smap && cpuid7_ebx(20))
		cr4 |= X86_CR4_SMAP;
	write_cr4(cr4);
	write_cr0(a->saved.cr0 | X86_CR0_WP);
	if (memory_cr3())
		write_cr3(memory_cr3());
}

/* A firmware with a TSS of its own gets it back: LTR wants a descriptor that is not busy. */
static void reload_tr(const struct saved *s)
{
	u8 *access = (u8 *)s->gdt.base + (s->tr & ~7) + 5;

	if (!s->tr || (s->tr & ~7) + 15 > s->gdt.limit)
		return;
	write_cr0(s->cr0 & ~X86_CR0_WP);
	*access &= (u8)~2;
	__asm__ volatile("ltr %0" ::"r"(s->tr) : "memory");
	write_cr0(s->cr0);
}

void traps_keep(void)
{
	if (!areas[0].saved.tr)
		platform_keep(tss_pages);
}

void traps_unload(unsigned cpu)
{
	struct saved *s = &areas[cpu].saved;

	if (!s->valid)
		return;
	/* What a crash may have left in the middle: while mcspin's IDT still takes what these raise. */
	osq_pv_unregister();
	if (this_cpu()->old_xcr0)
		platform_vector_end();
	write_dr7(s->dr7);
	write_cr3(s->cr3);
	write_cr0(s->cr0);
	write_cr4(s->cr4);
	wrmsr(MSR_GS_BASE, s->gs_base);
	__asm__ volatile("lidt %0" ::"m"(s->idt) : "memory");
	__asm__ volatile("lgdt %0" ::"m"(s->gdt) : "memory");
	if (s->tr)
		reload_tr(s);
	s->valid = false;
}

/* MP Services builds the processors' start-up code from what is loaded here: tables above 4 GiB,
 * or tables that go away, reset the machine. */
void fw_tables_begin(void)
{
	struct saved *s = &areas[0].saved;

	if (!s->valid)
		return;
	write_cr3(s->cr3);
	__asm__ volatile("lidt %0" ::"m"(s->idt) : "memory");
	__asm__ volatile("lgdt %0" ::"m"(s->gdt) : "memory");
}

void fw_tables_end(void)
{
	struct cpu_area *a = &areas[0];

	if (!a->saved.valid)
		return;
	load_gdt(a->gdt, a->tss_selector + 16ul);
	load_idt(idt, IDT_ENTRIES * sizeof(*idt));
	if (memory_cr3())
		write_cr3(memory_cr3());
}

/* -------------------------------------------------------------------- dispatch */

void trap_dispatch(struct pt_regs *regs);
void trap_dispatch(struct pt_regs *regs)
{
	u64 addr = regs->vector == X86_TRAP_PF ? read_cr2() : 0;

	if (regs->vector == X86_TRAP_NMI && processors_nmi(regs))
		return;
	if (handle_trap(regs, (unsigned)regs->vector, addr))
		return;
	platform_crash(regs, (unsigned)regs->vector,
		       traps_overrun(smp_processor_id(), regs->sp)
			       ? "its stack was overrun"
			       : "an exception that nothing expected");
}
