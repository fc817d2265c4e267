/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A firmware that runs with five levels of page tables. Going there means leaving long mode for a
 * moment (Intel SDM volume 3, 4.1.2: CR4.LA57 cannot change in it): through the 32-bit code segment
 * of the firmware's GDT, everything touched meanwhile below 4 GiB.
 */
#include "hostile.h"

#define CR4_LA57 (1ull << 12)

/* rdi: the top table. Stack and code are below 4 GiB, identity-mapped by both sets of tables. */
void five_levels_on(UINT64 top);
__asm__(".text\n"
	"five_levels_on:\n"
	"	pushfq\n"
	"	cli\n"
	"	movl	%cs, %edx\n"
	"	leaq	2f(%rip), %rsi\n"
	"	leaq	1f(%rip), %rax\n"
	"	pushq	$0x10\n"
	"	pushq	%rax\n"
	"	lretq\n"
	"	.code32\n"
	"1:	movl	%cr0, %eax\n"
	"	andl	$0x7fffffff, %eax\n"
	"	movl	%eax, %cr0\n"
	"	movl	%cr4, %ecx\n"
	"	orl	$0x1000, %ecx\n"
	"	movl	%ecx, %cr4\n"
	"	movl	%edi, %cr3\n"
	"	orl	$0x80000000, %eax\n"
	"	movl	%eax, %cr0\n"
	"	pushl	%edx\n"
	"	pushl	%esi\n"
	"	lretl\n"
	"	.code64\n"
	"2:	popfq\n"
	"	ret\n");

static int offered(void)
{
	UINT32 a = 7, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return c >> 16 & 1;
}

void bend_paging(void)
{
	EFI_PHYSICAL_ADDRESS at = 0xffffffff;
	UINT64 cr3, cr4, *top;

	if (!offered() || BS->AllocatePages(AllocateMaxAddress, EfiBootServicesData, 1, &at)) {
		say("no five levels here");
		return;
	}
	__asm__ volatile("movq %%cr3, %0; movq %%cr4, %1" : "=r"(cr3), "=r"(cr4));
	top = (UINT64 *)at;
	SetMem(top, 4096, 0);
	top[0] = (cr3 & ~0xfffull) | 3; /* present, writable: the old top table is the first entry */
	five_levels_on(at);
	__asm__ volatile("movq %%cr4, %0" : "=r"(cr4));
	say("five levels %u", cr4 & CR4_LA57 ? 1 : 0);
}
