/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * make plan: what mcspin would decide on the machine of a `cpuid -r` dump, by the same functions
 * and over the same tables as on the machine.
 *
 *	plan FILE [MSR=VALUE …]
 *
 * JSON on the standard output; exit status 2 with one sentence on the standard error.
 */
#include <stdio.h>
#include <string.h>

#include "dump.h"
#include "../../src/alt/alternative.h"
#include "../../src/cpu/features.h"

static struct machine machine;
static struct dump dump;

static void print_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 32 || (unsigned char)*s > 126)
			printf("\\u%04x", (unsigned char)*s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void print_field(const char *key, const char *value)
{
	printf("\"%s\": ", key);
	print_string(value);
}

static void print_machine(unsigned threads)
{
	const struct machine *m = &machine;

	printf(" \"machine\": {");
	print_field("vendor", m->vendor_id);
	printf(", \"family\": %u, \"model\": %u, \"stepping\": %u,\n  ", m->family, m->model,
	       m->stepping);
	print_field("brand", m->brand);
	printf(", \"microcode\": ");
	if (m->microcode_known)
		printf("\"0x%llx\"", (unsigned long long)m->microcode);
	else
		printf("null");
	printf(", \"cpus\": %u, \"cpus_in_dump\": %u,\n", threads, dump.processors);
	printf("  \"hypervisor\": {\"present\": %s, ",
	       m->hv != HV_NONE && m->hv != HV_HIDDEN ? "true" : "false");
	print_field("name", hypervisor_name(m->hv));
	printf(", ");
	print_field("signature", m->hv_signature);
	printf("}, \"emulated\": %s,\n  \"tsc\": {\"hz\": null, \"source\": null, \"invariant\": %s, "
	       "\"skew\": null}},\n",
	       m->emulated ? "true" : "false",
	       m->features[X86_FEATURE_NONSTOP_TSC] ? "true" : "false");
}

/* A leaf that the dump should hold and does not is unknown, not absent. */
static bool known(unsigned f)
{
	struct cpuid_regs top;
	u32 leaf, sub;

	if (!x86_feature_leaf(f, &leaf, &sub) || dump_has(&dump, leaf, sub))
		return true;
	dump.source.cpuid(&dump.source, leaf & 0x80000000u, 0, &top);
	return top.eax < leaf;
}

static void print_features(void)
{
	printf(" \"features\": {");
	for (unsigned f = 0; f < NR_X86_FEATURES; f++)
		printf("%s%s\"%s\": %s", f ? ", " : "", f && f % 6 == 0 ? "\n  " : "",
		       x86_feature_name(f),
		       !known(f) ? "null" : machine.features[f] ? "true" : "false");
	printf("},\n \"because\": {");
	for (unsigned f = 0; f < NR_X86_FEATURES; f++) {
		printf("%s", f ? ",\n  " : "");
		print_field(x86_feature_name(f),
			    known(f) ? machine.because[f] : "its leaf is not recorded in the dump");
	}
	printf("},\n");
}

static void print_site(const struct alt_plan *p, bool first)
{
	char choice[32];

	alt_choice_name(p->id, p->chosen, choice, sizeof(choice));
	printf("%s  {", first ? "" : ",\n");
	print_field("name", alt_site_name(p->id));
	printf(", ");
	print_field("choice", choice);
	printf(", ");
	print_field("because", p->because);
	printf("}");
}

/* All places of one name decide alike; the first stands for them. The suite's own say nothing. */
static void print_sites(void)
{
	bool said[NR_MCSPIN_SITES] = {[SITE_ALT_TEST] = true};
	static struct alt_plan p;
	bool first = true;

	printf(" \"sites\": [\n");
	for (const struct alt_instr *a = __alt_instructions; a < __alt_instructions_end; a++) {
		u8 *addr = (u8 *)&a->instr_offset + a->instr_offset;

		alt_decide(&p, __alt_instructions, __alt_instructions_end, addr, &machine);
		if (p.id < 0 || said[p.id])
			continue;
		said[p.id] = true;
		print_site(&p, first);
		first = false;
	}
	if (&__start___smp_locks[0] != &__stop___smp_locks[0]) {
		alt_decide_lock(&p, (u8 *)__start___smp_locks + *__start___smp_locks, &machine);
		print_site(&p, first);
	}
	printf("\n ],\n");
}

static const char *msr_meaning(u32 msr)
{
	switch (msr) {
	case 0x8b:
		return "microcode revision: unknown";
	case 0x1a0:
		return "IA32_MISC_ENABLE: fast strings on (bit 0 set), as firmware leaves it";
	case 0xc0011029:
		return "DE_CFG: LFENCE serialises (bit 1 set), as Linux sets it";
	default:
		return "not needed";
	}
}

static void print_msrs(void)
{
	bool first = true;

	printf(" \"msrs\": [");
	for (unsigned i = 0; i < dump.msr_count; i++) {
		if (!dump.msrs[i].asked)
			continue;
		printf("%s{\"msr\": \"0x%x\", ", first ? "" : ", ", dump.msrs[i].msr);
		if (dump.msrs[i].given)
			printf("\"given\": \"0x%llx\"}", (unsigned long long)dump.msrs[i].value);
		else
			print_field("assumed", msr_meaning(dump.msrs[i].msr)), printf("}");
		first = false;
	}
	printf("]\n");
}

int main(int argc, char **argv)
{
	unsigned threads;
	char why[400];

	if (argc < 2 || !*argv[1]) {
		fprintf(stderr, "plan: name a dump made by cpuid -r: make plan DUMP=file\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		if (!dump_set_msr(&dump, argv[i])) {
			fprintf(stderr, "plan: \"%s\" is not MSR=VALUE\n", argv[i]);
			return 2;
		}
	}
	if (dump_read(&dump, argv[1], why, sizeof(why))) {
		fprintf(stderr, "plan: %s\n", why);
		return 2;
	}
	threads = dump_threads(&dump);
	cpu_decide(&machine, &dump.source, threads);
	printf("{\"schema\": \"mcspin-results-1\",\n");
	print_machine(threads);
	print_features();
	print_sites();
	print_msrs();
	printf("}\n");
	return 0;
}
