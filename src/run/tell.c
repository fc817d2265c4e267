/* SPDX-License-Identifier: GPL-2.0-only */
/* The beginning and the end of a run, what it knows of the machine, and its files. */
#include "run.h"
#include "options.h"
#include "../alt/alternative.h"
#include "../alt/jump_label.h"
#include "../bench/tsc.h"
#include "../cpu/features.h"
#include "../copy/copy_mc.h"
#include "../mce/mce.h"
#include "../osq/osq.h"
#include "../platform.h"
#include "../report/compare.h"
#include "../report/event.h"
#include "../report/views.h"

#ifndef MCSPIN_VERSION
#define MCSPIN_VERSION "unknown"
#endif

char run_id[40];
bool run_text_patched;

static u64 begun; /* TSC */

/* 2026-12-01T01:22:44Z -> 20261201-012244 */
void run_choose_id(void)
{
	const char *clock = platform_clock();
	size_t at = 0;

	for (; *clock && at < sizeof(run_id) - 1; clock++) {
		if (*clock >= '0' && *clock <= '9')
			run_id[at++] = *clock;
		else if (*clock == 'T')
			run_id[at++] = '-';
	}
	run_id[at] = 0;
	if (!at)
		memcpy(run_id, "no-clock", 9);
}

void run_begin(void)
{
	const char *clock = platform_clock();

	if (!*run_id)
		run_choose_id();
	begun = rdtsc_ordered();
	if (!options.seed)
		options.seed = begun | 1;
	ktap_line("KTAP version 1");
	event_begin("run");
	event_str("schema", "mcspin-results-1");
	event_str("id", run_id);
	event_str("version", MCSPIN_VERSION);
	event_str("options", options.text);
	event_str("started", *clock ? clock : NULL);
	event_fmt("seed", "%llu", (unsigned long long)options.seed);
	event_u64("budget_s", run_budget_s());
	event_end();
}

u32 run_budget_s(void)
{
	if (options.time)
		return options.time;
	return options.quick ? 20 : 55;
}

static void fnv(u64 *hash, const void *bytes, size_t len)
{
	const u8 *p = bytes;

	while (len--)
		*hash = (*hash ^ *p++) * 0x100000001b3ull;
}

static void fnv_text(u64 *hash, const char *text)
{
	while (*text)
		fnv(hash, text++, 1);
	fnv(hash, "", 1);
}

/* What makes two machines the same for a comparison: processor, microcode, firmware, processors,
 * memory (in whole MiB: firmware rounds the rest as it likes). FNV-1a, no secret. */
static u64 fingerprint(unsigned cpus)
{
	const struct machine *m = &boot_cpu_data;
	u64 hash = 0xcbf29ce484222325ull;
	u64 numbers[] = {m->family, m->model, m->stepping, m->microcode, cpus,
			 platform_memory_bytes() >> 20, m->hv};

	fnv_text(&hash, m->vendor_id);
	fnv_text(&hash, m->brand);
	fnv_text(&hash, platform_firmware());
	fnv(&hash, numbers, sizeof(numbers));
	return hash;
}

static void tell_machine(unsigned cpus)
{
	const struct machine *m = &boot_cpu_data;

	event_begin("machine");
	event_str("vendor", m->vendor_id);
	event_u64("family", m->family);
	event_u64("model", m->model);
	event_u64("stepping", m->stepping);
	event_str("brand", m->brand);
	if (m->microcode_known)
		event_hex64("microcode", m->microcode);
	else
		event_null("microcode");
	event_u64("cpus", cpus);
	event_object("hypervisor");
	event_bool("present", m->hv != HV_NONE && m->hv != HV_HIDDEN);
	event_str("name", hypervisor_name(m->hv));
	event_str("signature", m->hv_signature);
	event_close();
	event_bool("emulated", m->emulated);
	tsc_tell();
	event_str("firmware", platform_firmware());
	event_str("product", platform_product());
	event_u64("memory_mib", platform_memory_bytes() >> 20);
	event_fmt("fingerprint", "%016llx", (unsigned long long)fingerprint(cpus));
	event_end();
}

static void tell_features(void)
{
	event_begin("feature");
	event_object("features");
	for (unsigned f = 0; f < NR_X86_FEATURES; f++)
		event_bool(x86_feature_name(f), boot_cpu_data.features[f]);
	event_close();
	event_object("because");
	for (unsigned f = 0; f < NR_X86_FEATURES; f++)
		event_str(x86_feature_name(f), boot_cpu_data.because[f]);
	event_close();
	event_end();
}

void run_know(unsigned cpus)
{
	cpu_decide(&boot_cpu_data, &cpu_source_live, cpus);
	platform_mask_features(&boot_cpu_data);
	if (options.icount >= 0)
		boot_cpu_data.emulated = true;
	if (!platform_ring0())
		setup_clear_cpu_cap(&boot_cpu_data, X86_FEATURE_SMAP,
				    "a host process: STAC and CLAC are privileged");
	osq_overrule(&boot_cpu_data);
	cpu_freeze(&boot_cpu_data);
	tsc_calibrate();
	tell_machine(cpus);
	tell_features();
	if (boot_cpu_data.emulated)
		event_warn("this run is under emulation: its times prove nothing about speed");
}

void run_started(unsigned cpus)
{
	osq_pv_register();
	tsc_measure_skew();
	mce_check_elsewhere(NULL);
	tell_machine(cpus);
}

void run_patch(void)
{
	osq_choose_backend(); /* a direct call takes its target from it */
	run_text_patched = alt_patch_all() == 0;
	if (jump_label_init())
		run_worsen(RESULT_ERROR, "a static key's site is not as it was built");
	copy_mc_decide_fragile();
	if (osq_init())
		run_worsen(RESULT_ERROR, "no memory for the locks' nodes");
	osq_decide();
	mce_repmov_quirk = !options.repmov;
	mce_snapshot();
}

enum result run_all(void)
{
	run_begin();
	run_know(platform_cpus());
	run_patch();
	run_started(platform_cpus());
	run_tests();
	run_benches();
	return run_end();
}

/* -------------------------------------------------------------------- files */

static void save_view(const char *name, int (*view)(const char *, size_t, struct sink *),
		      const char *log, size_t log_len)
{
	static bool said;
	size_t cap = log_len * 3 + (128 << 10);
	char *buf = platform_alloc(cap);
	struct sink sink;
	int err = -ENOMEM;

	if (buf) {
		sink_buffer(&sink, buf, cap);
		err = view(log, log_len, &sink);
		if (!err && sink.overflow)
			err = -E2BIG;
		if (!err)
			err = platform_file_write(name, buf, sink.len);
		platform_free(buf, cap);
	}
	if (err && !said) {
		said = true;
		run_worsen(err == -EROFS ? RESULT_NONE : RESULT_ERROR,
			   err == -EROFS ? "no volume to write %s to: the stream carries all of it"
					 : "%s could not be written (error %d)",
			   name, -err);
	}
}

void run_save(void)
{
	size_t len;
	const char *log = event_log(&len);

	save_view("results.json", view_results_json, log, len);
	save_view("junit.xml", view_junit_xml, log, len);
	save_view("report.html", view_report_html, log, len);
}

static void tell_done(enum result result)
{
	event_begin("done");
	event_str("id", run_id);
	event_str("result", result_name(result));
	event_fixed("seconds", (s64)(tsc_to_ns(rdtsc_ordered() - begun) / 1000000), 3);
	event_end();
}

enum result run_end(void)
{
	enum result result;

	compare_with_baseline();
	if (event_lost())
		run_worsen(RESULT_ERROR, "%s", event_lost());
	result = run_result();
	tell_done(result);
	run_save();
	/* A file that could not be written came to light after the last word: take it back. */
	if (run_result() != result)
		tell_done(run_result());
	return run_result();
}
