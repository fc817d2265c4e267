/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mcspin, from beginning to end. Each line is one step of a run; what a step means is at the head
 * of the header it comes from.
 */
#include "firmware.h"
#include "cpu.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/run/options.h"
#include "../src/run/run.h"

#define OLD_KEYS 64

EFI_HANDLE fw_image;
EFI_SYSTEM_TABLE *fw_st;
EFI_BOOT_SERVICES *fw_bs;
EFI_LOADED_IMAGE *fw_loaded;
bool fw_inside;
static bool watchdog_runs; /* the firmware would not stop it */
static bool stayed_behind; /* a processor that did not come back to the firmware */

static void firmware_tables(EFI_HANDLE image, EFI_SYSTEM_TABLE *table)
{
	EFI_GUID loaded = LOADED_IMAGE_PROTOCOL;

	fw_image = image;
	fw_st = table;
	fw_bs = table->BootServices;
	fw_bs->HandleProtocol(image, &loaded, (void **)&fw_loaded);
	/* The boot manager resets the machine after five minutes otherwise. */
	watchdog_runs = fw_bs->SetWatchdogTimer(0, 0, 0, NULL) != EFI_SUCCESS;
}

/* Options that run nothing. True when one was asked for. */
static bool only_told(void)
{
	if (options.help)
		options_help(console_say);
	if (options.list)
		run_list(console_say);
	return options.help || options.list;
}

/* Where mcspin's own tables lie: above 4 GiB, where careless code breaks, if there is memory. */
static void tell_tables(void)
{
	extern u8 _text[]; /* linker/mcspin.lds */
	u64 lowest = min_of(memory_cr3(), (u64)traps_area(0));

	event_begin("tables");
	event_hex64("cr3", memory_cr3());
	event_hex64("gdt_tss_stacks", (u64)traps_area(0));
	/* What patched bytes are read back through; without it through their own mapping. */
	event_bool("second_mapping", memory_text_alias(_text) != NULL);
	event_bool("above_4g", memory_cr3() && lowest >> 32);
	event_end();
}

/* The machine's tables, stacks, files and the number of its processors. */
static bool take_machine(void)
{
	const char *before;

	processors_start();
	memory_start();
	if (traps_start(platform_cpus())) {
		console_say("mcspin: no memory for the processors' stacks and tables");
		return false;
	}
	traps_load(0);
	run_choose_id();
	files_start();
	run_begin();
	tell_tables();
	if (!files_usable())
		event_warn("no volume can be written: the stream carries everything");
	if (watchdog_runs)
		event_warn("the firmware's watchdog could not be stopped: it resets the machine five "
			   "minutes after mcspin's start");
	if (options_junk())
		event_warn("%s", options_junk());
	before = files_unfinished();
	if (before)
		event_warn("an earlier run did not finish: %s", before);
	/* ESC was pressed for the firmware's menu, perhaps more often than the firmware took. */
	for (unsigned i = 0; i < OLD_KEYS && console_key(); i++)
		;
	return true;
}

/* On the boot processor, or on the referee: the application processor that takes its place where the
 * firmware wants the boot processor for itself. */
static void check_and_time(void)
{
	run_started(platform_cpus());
	if (context_save(&crash_return)) {
		processors_watch(false);
		if (fw_callable()) {
			/* The firmware's timer may have been what found the crash. */
			fw_bs->RestoreTPL(TPL_APPLICATION);
			irq_on();
		}
		crash_tell();
		ktap_line("Bail out! the processor that runs the tests crashed in %s", run_doing());
		return;
	}
	crash_return_set = true;
	processors_watch(true);
	run_tests();
	run_benches();
	processors_watch(false);
	crash_return_set = false;
}

static enum result give_back(void)
{
	enum result result;

	processors_leave();
	stayed_behind = !processors_all_back();
	if (stayed_behind)
		run_worsen(RESULT_ERROR, "a processor did not come back: the machine is reset, "
			   "whatever exit= says");
	if (!traps_canaries(0))
		run_worsen(RESULT_ERROR, "an exception stack of the boot processor was overrun");
	if (crashed)
		run_worsen(RESULT_ERROR, "there was a crash");
	result = run_end();
	screen_show(true);
	files_end();
	hardware_end();
	traps_unload(0);
	traps_keep();
	return result;
}

/* The verdict stays until a key or `hold=` seconds, unless the Shell has its own screen. */
static void hold_verdict(void)
{
	for (u32 s = 0; s < options.hold * 10 && !console_key(); s++)
		fw_bs->Stall(100000);
}

static EFI_STATUS leave(enum result result)
{
	EFI_RUNTIME_SERVICES *rs = fw_st->RuntimeServices;

	files_end(); /* mcspin.cfg was looked for even where nothing ran */
	console_end();
	/* A processor that stayed behind runs on in memory that must not become somebody else's. */
	if (!stayed_behind)
		memory_end();

	if (options.exit == EXIT_QEMU)
		outb(0xf4, result == RESULT_PASS ? 0x10 : 0x11);
	if (!fw_from_shell && options.exit != EXIT_QEMU)
		hold_verdict();
	if (stayed_behind || options.exit == EXIT_RESET)
		rs->ResetSystem(EfiResetCold, EFI_SUCCESS, 0, NULL);
	if (options.exit == EXIT_OFF)
		rs->ResetSystem(EfiResetShutdown, EFI_SUCCESS, 0, NULL);
	return result == RESULT_PASS ? EFI_SUCCESS : EFI_ABORTED;
}

/* Loaders have been seen that leave the zeroed part of an image as it was. */
static void clear_bss(void)
{
	extern u8 _bss[], _ebss[]; /* linker/mcspin.lds */

	memset(_bss, 0, (size_t)(_ebss - _bss));
}

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *table);
EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *table)
{
	char why[200];
	bool understood;

	clear_bss();
	firmware_tables(image, table);
	understood = options_read(why, sizeof(why));
	console_start();
	if (!understood) {
		console_say(why);
		return leave(RESULT_ERROR);
	}
	if (only_told())
		return leave(RESULT_PASS);

	if (!take_machine())
		return leave(RESULT_ERROR);
	run_know(platform_cpus());
	run_patch();
	processors_enter();
	if (!processors_referee(check_and_time))
		check_and_time();
	return leave(give_back());
}

static void tell_stuck_port(void)
{
	static bool said;

	if (said || !console_uart_stuck())
		return;
	said = true;
	run_worsen(RESULT_ERROR, "the serial port stopped sending and was given up: the stream goes "
		   "on in mcspin.log");
}

/* ESC stays asked for: not everybody who calls this can stop at once. */
bool platform_breathe(void)
{
	static bool asked;

	processors_alive();
	tell_stuck_port();
	files_doing(run_doing());
	files_flush();
	screen_show(false);
	asked |= console_key() == 0x1b;
	return asked;
}
