/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Soft injection: a bank is written and `int $18` raised, as Linux's mce-inject does it. AMD and
 * Hygon allow the write while HWCR.McStatusWrEn is set, QEMU always, Intel never. The instruction
 * behind the interrupt has the exception table's entry.
 */
#include "mce_inject.h"
#include "../copy/copy_cases.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../run/run.h"
#include "../trap/extable.h"
#include "../trap/trap.h"

#define BANK 2
#define ADDR 0x12345000ull
#define MISC 0x8cull /* address granularity 12 bits, physical: Intel SDM, IA32_MCi_MISC */

#define SOUND (MCI_STATUS_VAL | MCI_STATUS_EN)
#define PLACE (MCI_STATUS_ADDRV | MCI_STATUS_MISCV)
#define SRAO  (SOUND | PLACE | MCI_STATUS_UC | MCI_STATUS_S)
#define SRAR  (SRAO | MCI_STATUS_AR | MCACOD_DATA)
#define ALL   (MCG_STATUS_RIPV | MCG_STATUS_EIPV | MCG_STATUS_MCIP)

/* -------------------------------------------------------------------- catching */

static struct injected *caught;

static void sweep_banks(void)
{
	u64 cap = 0;

	platform_rdmsr(MSR_IA32_MCG_CAP, &cap);
	for (unsigned b = 0; b < MCG_BANKCNT(cap); b++) {
		u64 status = 0;

		platform_rdmsr(MSR_IA32_MCx_STATUS(b), &status);
		if (status & MCI_STATUS_VAL)
			platform_wrmsr(MSR_IA32_MCx_STATUS(b), 0);
	}
	platform_wrmsr(MSR_IA32_MCG_STATUS, 0);
}

static bool catch_check(struct pt_regs *regs, u64 addr)
{
	u64 ip = regs->ip, recovered = mce_last.recovered;

	caught->continued = do_machine_check(regs);
	caught->checks++;
	caught->fixed_up = mce_last.recovered != recovered;
	caught->msg = mce_last.msg;
	caught->ip = ip;
	caught->addr = mce_last.worst.addr;
	caught->si = mce_last.si;
	if (!caught->continued) {
		this_cpu()->in_mce = 0;
		sweep_banks();
	}
	return true;
}

void inject_catch(struct injected *out)
{
	*out = (struct injected){0};
	caught = out;
	trap_set_hook(X86_TRAP_MC, catch_check);
}

void inject_release(void)
{
	trap_set_hook(X86_TRAP_MC, NULL);
	sweep_banks();
}

enum mce_severity inject_grade(const struct injection *i)
{
	struct mce m = {.status = i->status, .mcgstatus = i->mcgstatus, .bank = BANK};
	const u64 both = MCG_STATUS_RIPV | MCG_STATUS_EIPV;
	struct mce_config cfg;
	u64 cap;

	mce_this_machine(&cfg, &cap);
	return mce_severity(&m, &cfg, (i->mcgstatus & both) == both ? IN_KERNEL_RECOV : IN_KERNEL,
			    true, NULL);
}

/* -------------------------------------------------------------------- one soft injection */

static u64 hwcr_was;

static void close_banks(void)
{
	if (boot_cpu_data.vendor == VENDOR_AMD || boot_cpu_data.vendor == VENDOR_HYGON)
		platform_wrmsr(MSR_K7_HWCR, hwcr_was);
}

/* 0, or why banks cannot be written here. */
static const char *open_banks(void)
{
	if (boot_cpu_data.vendor == VENDOR_AMD || boot_cpu_data.vendor == VENDOR_HYGON) {
		if (platform_rdmsr(MSR_K7_HWCR, &hwcr_was) ||
		    platform_wrmsr(MSR_K7_HWCR, hwcr_was | HWCR_MCSTATUS_WREN))
			return "HWCR.McStatusWrEn cannot be set";
	}
	if (!platform_wrmsr(MSR_IA32_MCx_STATUS(BANK), SOUND) &&
	    !platform_wrmsr(MSR_IA32_MCx_STATUS(BANK), 0))
		return NULL;
	close_banks();
	return "this processor refuses to have its banks written";
}

/* True when execution went on at the fix-up. */
static bool raise_soft(unsigned bank, const struct injection *i)
{
	bool fixed = false;

	platform_wrmsr(MSR_IA32_MCx_ADDR(bank), ADDR);
	platform_wrmsr(MSR_IA32_MCx_MISC(bank), MISC);
	platform_wrmsr(MSR_IA32_MCx_STATUS(bank), i->status);
	platform_wrmsr(MSR_IA32_MCG_STATUS, i->mcgstatus);
	__asm__ volatile("	int $18\n"
			 "1:	movb $0, %0\n"
			 "	jmp 3f\n"
			 "2:	movb $1, %0\n"
			 "3:\n" _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT_MCE_SAFE)
			 : "+q"(fixed)::"memory");
	return fixed;
}

/* -------------------------------------------------------------------- tests */

static const struct injection soft[] = {
	{"recoverable load", SRAR, ALL, false},
	{"corrected", SOUND | PLACE | 0x9, ALL, false},
	{"uncorrected, no action", SOUND | PLACE | MCI_STATUS_UC | 0x9, ALL, false},
	{"action optional", SRAO | MCACOD_SCRUB, ALL, false},
	{"context corrupt", SRAR | MCI_STATUS_PCC, ALL, false},
	{"overflow", SRAR | MCI_STATUS_OVER, ALL, false},
	{"no restart IP", SRAR, MCG_STATUS_EIPV | MCG_STATUS_MCIP, false},
	{"MCIP clear", SRAR, MCG_STATUS_RIPV | MCG_STATUS_EIPV, false},
	{"not enabled", SRAR & ~MCI_STATUS_EN, ALL, false},
};

static void judge_soft(struct test_run *t, const struct injection *i, const struct injected *got,
		       bool fixed, u64 status)
{
	enum mce_severity grade = inject_grade(i);
	bool fatal = grade == MCE_PANIC_SEVERITY || grade == MCE_UC_SEVERITY;
	bool logged = grade == MCE_KEEP_SEVERITY || grade == MCE_UCNA_SEVERITY;

	check(t, got->checks == 1, "%s: %lu machine checks arrived", i->name,
	      (unsigned long)got->checks);
	check(t, got->continued == !fatal, "%s: %s although it is graded %s (%s)", i->name,
	      got->continued ? "continued" : "not continued", mce_severity_name(grade), got->msg);
	check(t, fixed == (grade == MCE_AR_SEVERITY), "%s: %s the fix-up, graded %s", i->name,
	      fixed ? "went to" : "did not go to", mce_severity_name(grade));
	check(t, fatal || !!(status & MCI_STATUS_VAL) == logged, "%s: its bank was%s cleared",
	      i->name, logged ? "" : " not");
}

static void soft_here(void *arg)
{
	struct test_run *t = arg;
	const char *why = open_banks();
	struct injected got;

	if (why) {
		check_skip(t, "%s", why);
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(soft); i++) {
		u64 status = 0;
		bool fixed;

		inject_catch(&got);
		fixed = raise_soft(BANK, &soft[i]);
		platform_rdmsr(MSR_IA32_MCx_STATUS(BANK), &status);
		judge_soft(t, &soft[i], &got, fixed, status);
		inject_release();
	}
	close_banks();
}

TEST(mce, soft, "banks written and int $18: each check ends as the grader says",
     NEED_RING0 | NEED_MCE)
{
	soft_here(t);
}

TEST(mce, soft_ap, "the same on another processor", NEED_RING0 | NEED_MCE | NEED_2_CPUS)
{
	check(t, !on_cpu(another_cpu(), soft_here, t, 5000), "the processor did not answer");
}

static const char *planted;

static void plant(void *arg)
{
	planted = open_banks();
	if (planted)
		return;
	platform_wrmsr(MSR_IA32_MCx_STATUS(BANK), SOUND | 0x9);
	close_banks();
}

static void clear_here(void *arg)
{
	sweep_banks();
}

TEST(mce, watch_ap, "what another processor's banks hold is seen once, and again when it is new",
     NEED_RING0 | NEED_MCE | NEED_2_CPUS)
{
	unsigned cpu = another_cpu();
	struct mce m = {0};

	if (!check(t, !on_cpu(cpu, plant, NULL, 5000), "the processor did not answer"))
		return;
	if (planted) {
		check_skip(t, "%s", planted);
		return;
	}
	for (unsigned round = 0; round < 2; round++) {
		check(t, mce_look_elsewhere(&m) == 1 && m.bank == BANK, "a corrected error was not seen");
		check(t, !mce_look_elsewhere(&m), "it was seen twice");
		on_cpu(cpu, clear_here, NULL, 5000);
		check(t, !mce_look_elsewhere(&m), "an empty bank was seen");
		if (!round)
			on_cpu(cpu, plant, NULL, 5000);
	}
}

/* The erratum's exact signature: fast strings go off, nothing is fixed up, and the copy whose guard
 * line was to blame is whole. */
static void run_quirk(struct test_run *t, u64 misc_enable)
{
	const struct injection erratum = {"erratum", SRAR, ALL | MCG_STATUS_LMCES, false};
	struct copy_case guard = {.v = &copy_variants[2], .len = 4096, .src_edge = EDGE_ABSENT,
				  .src_at = 4096};
	u64 before = mce_last.repmov_quirk, now = 0;
	struct injected got;

	inject_catch(&got);
	check(t, !raise_soft(1, &erratum), "the erratum went to the fix-up");
	platform_rdmsr(MSR_IA32_MISC_ENABLE, &now);
	check(t, got.continued && mce_last.repmov_quirk == before + 1, "it was not recognised (%s)",
	      got.msg);
	check(t, !(now & 1), "fast strings are still on");
	if (check(t, !copy_cases_begin(), "the arena could not be laid out")) {
		copy_case_check(t, &guard);
		copy_cases_end();
	}
	platform_wrmsr(MSR_IA32_MISC_ENABLE, misc_enable);
	mce_repmov_quirk = false;
	check(t, raise_soft(1, &erratum), "with the quirk off it is no plain recoverable check");
	mce_repmov_quirk = true;
	inject_release();
}

TEST(mce, repmov_quirk_soft, "the erratum's signature turns fast strings off and continues",
     NEED_RING0 | NEED_MCE | NEED_ARENA)
{
	u64 misc_enable = 0;
	const char *why;

	if (boot_cpu_data.vendor != VENDOR_INTEL || boot_cpu_data.model != 0x55) {
		check_skip(t, "only Skylake-X, Cascade Lake and Cooper Lake have the erratum");
		return;
	}
	if (platform_rdmsr(MSR_IA32_MISC_ENABLE, &misc_enable) || !(misc_enable & 1)) {
		check_skip(t, "fast strings are off already");
		return;
	}
	why = open_banks();
	if (why) {
		check_skip(t, "%s", why);
		return;
	}
	run_quirk(t, misc_enable);
	close_banks();
}
