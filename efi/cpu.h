/* SPDX-License-Identifier: GPL-2.0-only */
/* Privileged instructions, one line each, and the bits that go with them (Intel SDM vol. 3A). */
#ifndef MCSPIN_EFI_CPU_H
#define MCSPIN_EFI_CPU_H

#include "../src/types.h"

#define X86_CR0_WP	   (1ul << 16)
#define X86_CR4_MCE	   (1ul << 6)
#define X86_CR4_LA57	   (1ul << 12)
#define X86_CR4_OSXSAVE	   (1ul << 18)
#define X86_CR4_SMEP	   (1ul << 20)
#define X86_CR4_SMAP	   (1ul << 21)
#define X86_CR4_CET	   (1ul << 23)
#define MSR_GS_BASE	   0xc0000101
#define MSR_IA32_APICBASE  0x1b
#define MSR_X2APIC_ICR	   0x830
#define APICBASE_X2APIC	   (1ul << 10)
#define APIC_ICR	   0x300
#define APIC_ICR2	   0x310
#define APIC_DM_NMI	   0x400
#define APIC_LEVEL_ASSERT  0x4000
#define APIC_BUSY	   0x1000

struct __packed table_register {
	u16 limit;
	u64 base;
};
static_assert(sizeof(struct table_register) == 10, "what SGDT and SIDT store");

#define READ_CR(n)                                                                                 \
	static inline u64 read_cr##n(void)                                                         \
	{                                                                                          \
		u64 v;                                                                             \
		__asm__ volatile("movq %%cr" #n ", %0" : "=r"(v)::"memory");                       \
		return v;                                                                          \
	}                                                                                          \
	static inline void write_cr##n(u64 v)                                                      \
	{                                                                                          \
		__asm__ volatile("movq %0, %%cr" #n ::"r"(v) : "memory");                          \
	}
READ_CR(0)
READ_CR(2)
READ_CR(3)
READ_CR(4)

static inline u64 read_dr7(void)
{
	u64 v;

	__asm__ volatile("movq %%dr7, %0" : "=r"(v));
	return v;
}

static inline void write_dr7(u64 v)
{
	__asm__ volatile("movq %0, %%dr7" ::"r"(v) : "memory");
}

static inline u64 rdmsr(u32 msr)
{
	u32 low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr) : "memory");
	return (u64)high << 32 | low;
}

static inline void wrmsr(u32 msr, u64 v)
{
	__asm__ volatile("wrmsr" ::"c"(msr), "a"((u32)v), "d"((u32)(v >> 32)) : "memory");
}

static inline u8 inb(u16 port)
{
	u8 v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static inline void outb(u16 port, u8 v)
{
	__asm__ volatile("outb %0, %1" ::"a"(v), "Nd"(port));
}

static inline u32 inl(u16 port)
{
	u32 v;

	__asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static inline u64 read_flags(void)
{
	u64 f;

	__asm__ volatile("pushfq; popq %0" : "=r"(f)::"memory");
	return f;
}

static inline void irq_off(void)
{
	__asm__ volatile("cli" ::: "memory");
}

static inline void irq_on(void)
{
	__asm__ volatile("sti" ::: "memory");
}

static inline void invlpg(const void *p)
{
	__asm__ volatile("invlpg (%0)" ::"r"(p) : "memory");
}

#endif
