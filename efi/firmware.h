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
/* The firmware's services, marked so. */
#define FW(call)                                                                                   \
	({                                                                                         \
		bool fw_was = fw_inside;                                                           \
		__typeof__(call) fw_result;                                                        \
		fw_inside = true;                                                                  \
		fw_result = (call);                                                                \
		fw_inside = fw_was;                                                                \
		fw_result;                                                                         \
	})
/* False on an application processor, and on any while the referee runs. */
bool fw_callable(void);

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
/* What was wrong with the load options that were ignored, or NULL. */
const char *options_junk(void);

/* console.c */
void console_start(void);
void console_uart(const char *text, size_t len);
/* Nobody takes what the port sends: it was given up. */
bool console_uart_stuck(void);
void console_end(void); /* the port as it was */
/* On the screen only, never on a port that carries the stream; UTF-8, newlines become CR LF. */
void console_screen(const char *text);
void console_screen_clear(void);
/* Columns and rows of the screen; 0 where there is none. */
void console_screen_size(unsigned *columns, unsigned *rows);
void console_screen_at(unsigned column, unsigned row);
/* screen.c: a line of the stream, and the picture of what it said so far (at most twice a second,
 * or `now`). */
void screen_line(const char *line, size_t len);
void screen_show(bool now);
/* A key, or 0. ESC is 0x1b. */
u16 console_key(void);
/* Everywhere a person may look: screen and serial line. */
void console_say(const char *text);

/* files.c */
void files_start(void);
/* Write what the stream has gained to mcspin.log; note in \mcspin\running what runs now. */
void files_flush(void);
void files_doing(const char *what);
void files_end(void);
/* What an unfinished earlier run died in, or NULL. */
const char *files_unfinished(void);
bool files_usable(void);
/* What mcspin.cfg beside the image holds: its length (room for one byte more is behind it), 0 where
 * there is none, or a negative errno. */
s64 files_config(char **text);
/* "BOOTX64.EFI": the image's file name, its length; "" when it came from no file. */
size_t files_image_name(char *name, size_t len);

/* memory.c */
void memory_start(void);
void memory_end(void); /* everything back to the firmware, but for what was kept */
/* From now on the control processor may be one that cannot call the firmware. */
bool memory_pool(size_t bytes);
/* Stack memory mapped once more with an absent page below it; its lowest byte there, or NULL. */
u8 *memory_guarded_stack(unsigned cpu, const u8 *physical, size_t bytes);
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

/* Where the stack pointer of an exception says that a stack was overrun. */
bool traps_overrun(unsigned cpu, u64 sp);
/* TR cannot be made null again: a TSS that the processors still point to stays allocated. */
void traps_keep(void);

/* processors.c */
void processors_start(void); /* count them */
void processors_enter(void); /* application processors into their work loop */
void processors_leave(void); /* and out of it */
bool processors_all_back(void); /* else its memory must not be given back */
/* The firmware wants the boot processor for itself: fn runs on an application processor, the
 * referee, and the boot processor waits in the firmware. False: no need, call fn yourself. */
bool processors_referee(void (*fn)(void));
/* NMI on this processor: true when it was mcspin's own. */
bool processors_nmi(struct pt_regs *regs);
/* The calling application processor cannot go on. Does not return. */
void __noreturn processors_abandon(const char *why);
/* The control processor lives. Where it does not say so for 15 s (60 s inside the firmware) while
 * it is watched, another processor, or the firmware's timer, pulls it out. */
void processors_alive(void);
void processors_watch(bool on);

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
/* Keep what a processor was doing when it was lost, for crash_tell(). That processor only. */
void crash_note(const struct pt_regs *regs, unsigned vector, const char *why);
/* The control processor is lost for good: say so, reset the machine. Any processor. */
void __noreturn crash_reset(const char *why);
/* Events for what was kept and not yet told. Control processor. */
void crash_tell(void);

#endif
