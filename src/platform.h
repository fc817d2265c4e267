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
/* May one of them stand still while the others run: threads that are more than the machine's cores,
 * virtual processors? */
bool platform_cpus_shared(void);
/* The APIC id of a processor, for topology. */
u32 platform_apic_id(unsigned cpu);

/* Start fn(arg) on another processor, interrupts off there. -EBUSY: still at work; -ENODEV: not
 * usable. The caller keeps `arg` alive until platform_wait() returned 0 or gave the processor up. */
int platform_post(unsigned cpu, void (*fn)(void *), void *arg);
/* Wait until what was posted is done. -ETIMEDOUT after `ms` milliseconds: the processor is pulled
 * out by NMI, named in an event, and not usable from then on. */
int platform_wait(unsigned cpu, u32 ms);

/* Any processor: interrupts off and back. Bounded regions only (a contest window: 100 ms). */
unsigned long platform_irq_save(void);
void platform_irq_restore(unsigned long flags);

/* ------------------------------------------------------------------ text */

enum text_way {
	TEXT_WAY_NONE,	   /* cannot be written: nothing is patched, and the run says so */
	TEXT_WAY_PROTOCOL, /* EFI_MEMORY_ATTRIBUTE_PROTOCOL */
	TEXT_WAY_WP,	   /* CR0.WP cleared on this processor, interrupts off meanwhile */
	TEXT_WAY_WRITABLE, /* it already was */
	TEXT_WAY_MPROTECT, /* a host process */
};

/* Make the text writable / put its rights back. Not nested. Interrupts are off in between. */
enum text_way platform_text_open(void);
void platform_text_close(void);
/* The first and one-past-last byte of the text that holds sites. */
void platform_text_range(u8 **start, u8 **end);
/* Serialise instruction fetch on every processor mcspin holds, wherever each is; bounded (5 s for
 * each, more where many are virtual).
 * -ETIMEDOUT names the processor in an event. */
int platform_sync_cores(void);
/* Read text through another mapping than the one it runs from. */
int platform_text_read(const void *text, void *buf, size_t len);

/* ------------------------------------------------------------------ output */

/* One finished line of the stream, newline included: serial port, log. Control processor only. */
void platform_stream(const char *line, size_t len);
/* A whole file in the run's folder, replacing an older one of this run. -EROFS: there is no volume
 * to write; -ENOSPC and others as they come. */
int platform_file_write(const char *name, const void *data, size_t len);
/* A whole file: "<run id>/<name>" of another run on the volume, or a path. Returns its length,
 * at most `cap` bytes of it read. */
s64 platform_file_read(const char *path, void *buf, size_t cap);
/* Room for events, keys and the screen between tests; returns true when the user asked to stop.
 * Called at least every few seconds, never inside a timed region. */
bool platform_breathe(void);

/* ------------------------------------------------------------------ hardware */

/* Safe MSR access on the calling processor. -EIO: it raised #GP; -ENODEV: no MSRs here. */
int platform_rdmsr(u32 msr, u64 *value);
int platform_wrmsr(u32 msr, u64 value);
/* A data watchpoint in debug register `index` (0 … 3) of the calling processor on the byte at
 * `addr`: writes only, or reads and writes; NULL ends it. -ENODEV where debug registers are not
 * ours. Hits arrive as #DB; the status says which registers hit and is cleared by reading. */
int platform_watchpoint(unsigned index, const void *addr, bool write_only);
u64 platform_debug_status(void);
/* Any processor: make AVX (and AVX-512, where it exists) state usable on the calling processor, and
 * put CR4 and XCR0 back. -ENODEV where there is none. */
int platform_vector_begin(void);
void platform_vector_end(void);
/* 32 bits of PCI configuration space; -ENODEV where there is no way to read it. */
int platform_pci_read32(u32 segment, u32 bus, u32 dev, u32 fn, u32 offset, u32 *value);
/* The ACPI table with this signature, its checksum good, or NULL; `len` may be NULL. */
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
