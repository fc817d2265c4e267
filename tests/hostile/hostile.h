/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A firmware that misbehaves: a small UEFI application that bends the services beneath mcspin, as
 * real firmware has been seen to do, then loads mcspin.efi beside it, starts it, and says on the
 * serial line what became of it. Which way it bends stands in hostile.cfg:
 *
 *	ways mp-unsupported,ro
 *	words quick=1 suite=selftest
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <efi.h>
#include <efilib.h>

/* On the serial line, "hostile: …". */
void say(const char *fmt, ...);

/* Is this word among the ways? */
int way(const char *word);

/* bend.c: before the image is loaded; and once it is, when its text is known. */
void bend_services(void);
void bend_image(EFI_LOADED_IMAGE *image);
/* What the recorded calls and the pages look like at the end. */
void tell_bends(void);

/* state.c: what mcspin borrows, before and after; says what it did not give back. */
void state_look(void);
void state_compare(void);

/* la57.c: five levels of page tables from here on. */
void bend_paging(void);

/* pages.c: one 4 KiB page's rights in the firmware's own tables, large pages split on the way. */
int page_set_writable(UINT64 address, int writable);
int page_writable(UINT64 address);

#endif
