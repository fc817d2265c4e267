/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one door through which the core asks the machine for things: memory, processors, text
 * permission, output, time. efi/ answers on a machine, tests/host/ in a Linux process; the core
 * is the same object code in both.
 *
 * Unless said otherwise a function returns 0 or a negative errno, may be called only on the
 * control processor (the boot processor, or the referee where the firmware keeps the boot
 * processor for itself), and never inside a timed region.
 */
#ifndef MCSPIN_PLATFORM_H
#define MCSPIN_PLATFORM_H

#include "types.h"

struct pt_regs;

/* ------------------------------------------------------------------ memory */

/* Page-aligned zeroed write-back memory of at least `bytes`; NULL when the budget (64 MiB + 64 KiB
 * a processor) or the machine is exhausted. Lives until platform_free() or the end of the run. */
void *platform_alloc(size_t bytes);
void platform_free(void *p, size_t bytes);
/* This allocation must not become anybody else's: it stays taken when the run is over. */
void platform_keep(const void *p);

/*
 * The arena: a window of ARENA_PAGES consecutive 4 KiB pages whose rights a test chooses page by
 * page, and an alias of the same physical pages that is always readable and writable by the core,
 * for preparing and examining what the window hides. One processor uses it at a time.
 */
#define ARENA_PAGES 64

enum arena_rights {
	ARENA_ABSENT,	 /* any access faults */
	ARENA_READ_ONLY, /* writes fault (CR0.WP is on) */
	ARENA_READ_WRITE,
	ARENA_USER, /* read-write user page: with SMAP on, access without AC faults */
};

/* Base of the window / its alias; NULL where there is none (platform_arena_missing() says why). */
u8 *platform_arena(void);
u8 *platform_arena_alias(void);
const char *platform_arena_missing(void);
/* Any processor. Takes effect on the calling processor before it returns; on another one before
 * the next work item that is posted to it begins. -EINVAL outside the window. */
int platform_arena_protect(unsigned page, unsigned count, enum arena_rights rights);
/* Whether ARENA_USER really means a user page (a host process has no other kind). */
bool platform_arena_has_user(void);

/* ------------------------------------------------------------------ processors */

#define MAX_CPUS 1024

/* Processors mcspin holds, numbered 0 … n-1 without a gap; 0 is the boot processor. */
unsigned platform_cpus(void);
/* The processor that hands out work (0, or the referee). */
unsigned platform_control_cpu(void);
/* False for one that never arrived, hangs, or (referee mode) is kept by the firmware. */
bool platform_cpu_usable(unsigned cpu);
 `len` may be NULL. */
const void *platform_acpi_table(const char signature[4], size_t *len);

/* A counter of known frequency, to calibrate the TSC against. read() costs microseconds at most. */
struct ref_timer {
	const char *name; /* "acpi-pm", "hpet", "pit", "clock_gettime" */
	u64 hz;
	u8 bits; /* width: it wraps at 2^bits */
	u64 (*read)(const struct ref_timer *timer);
	u64 base; /* port or address, for read() */
};
/* Fills at most `max` timers that exist and move, best first; returns how many. */
unsigned platform_ref_timers(struct ref_timer *timers, unsigned max);

/* Firmware vendor and version, product name: NUL-terminated UTF-8, "" when unknown. */
const char *platform_firmware(void);
const char *platform_product(void);
/* UTC, "2026-12-01T01:22:44Z", or "" when the clock is dead. */
const char *platform_clock(void);
/* Bytes of conventional memory, for the fingerprint. */
u64 platform_memory_bytes(void);
struct machine;
/* Before the freeze: clear features that this platform cannot use, with the reason. */
void platform_mask_features(struct machine *m);
/* Does the core run privileged (own IDT, control registers, MSRs)? False in a host process. */
bool platform_ring0(void);

/* ------------------------------------------------------------------ the worst */

/* What could not be handled. Writes the crash report to every sink that works and ends the run as
 * an error. Any processor. `regs` may be NULL; `why` is one sentence. */
void __noreturn platform_crash(const struct pt_regs *regs, unsigned vector, const char *why);

#endif
