/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the rooms of efi/ share: the firmware's tables, and which parts of a run belong to which
 * file. Firmware services are called on the boot processor only, with interrupts on and, for MP
 * Services, with the firmware's own CR3, GDT and IDT loaded (fw_tables_*).
 */
#ifndef MCSPIN_EFI_FIRMWARE_H
#define MCSPIN_EFI_FIRMWARE_H

#include <efi.h>
#include <efiprot.h>

#include "../src/types.h"
#include "../src/trap/ptrace.h"

extern EFI_HANDLE fw_image;
extern EFI_SYSTEM_TABLE *fw_st;
extern EFI_BOOT_SERVICES *fw_bs;
extern EFI_LOADED_IMAGE *fw_loaded;
/* Set while a firmware service runs that mcspin called: a crash in there must not call another. */
extern bool fw_inside;

static inline void *fw_protocol(const EFI_GUID *guid)
{
	void *p = NULL;
	EFI_GUID g = *guid;

	return fw_bs->LocateProtocol(&g, NULL, &p) == EFI_SUCCESS ? p : NULL;
}

/* Did the UEFI Shell start us? */
extern bool fw_from_shell;

/* options.c: words into `options`; false with one sentence in `why`. */
bool options_read(char *why, size_t len);

/* console.c */
void console_start(void);
void console_uart(const char *text, size_t len);
/* On the screen only, never on a port that carries the stream; UTF-8, newlines become CR LF. */
void console_screen(const char *text);
void console_screen_clear(void);
/* Columns and rows of the screen; 0 where there is none. */
void console_screen_size(unsigned *columns, unsigned *rows);
void console_screen_at(unsigned column, unsigned row);
/* A key, or 0. ESC is 0x1b. */
u16 console_key(void);
/* Everywhere a person may look: screen and serial line. */
void console_say(const char *text);

/* files.c */
void files_start(void);
void files_log(const char *line, size_t len);
/* Write what files_log() has gathered; note in \mcspin\running what runs now. */
void files_flush(void);
void files_doing(const char *what);
void files_end(void);
/* What an unfinished earlier run died in, or NULL. */
const char *files_unfinished(void);
bool files_usable(void);
/* Text of mcspin.cfg beside the image, NUL-terminated, or NULL. */
char *files_config(void);

/* memory.c */
void memory_start(void);
void memory_end(void);
u64 memory_cr3(void); /* mcspin's */
u64 memory_pte(const void *address); /* leaf entry of the current tables, 0: none */
bool memory_user_free(void);	     /* code pages are supervisor pages: SMEP and SMAP are safe */
const u8 *memory_text_alias(const void *text);

/* traps.c: one processor's tables and stacks */
struct cpu_area;
struct cpu_area *traps_area(unsigned cpu);
int traps_start(unsigned cpus);
void traps_load(unsigned cpu);	 /* on that processor: mcspin's GDT, TSS, IDT, CR3, CR4, GS */
void traps_unload(unsigned cpu); /* the firmware's back */
/* Firmware's own GDT, IDT and CR3 for the time of a call (boot processor). */
void fw_tables_begin(void);
void fw_tables_end(void);
/* True while the canaries of this processor's stacks stand. */
bool traps_canaries(unsigned cpu);
void *traps_stack_top(unsigned cpu);

/* processors.c */
void processors_start(void); /* count them */
void processors_enter(void); /* application processors into their work loop */
void processors_leave(void); /* and out of it; false memory stays reserved when one does not come */
bool processors_all_back(void);
/* NMI on this processor: true when it was mcspin's own. */
bool processors_nmi(struct pt_regs *regs);
/* The calling application processor cannot go on. Does not return. */
void __noreturn processors_abandon(const char *why);
unsigned processors_count_total(void);

/* text.c, hardware.c, crash.c have no state that others need; they answer platform.h. */
void hardware_end(void); /* timers as they were */
/* Where a crash of the boot processor continues: set by main. */
struct jump_context {
	u64 rbx, rbp, r12, r13, r14, r15, rsp, rip;
};
int context_save(struct jump_context *c) __attribute__((returns_twice));
void __noreturn context_jump(struct jump_context *c);
extern struct jump_context crash_return;
extern bool crash_return_set;
extern bool crashed;

#endif
