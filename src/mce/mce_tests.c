/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The grader and the handler on paper: rows that the kernel's mce-test suite injects, with the grade
 * that each must get, and a processor made of memory that shuts down when a machine check finds
 * MCIP set. Nothing here touches a register of this machine.
 */
#include "mce.h"
#include "../report/event.h"
#include "../run/run.h"
#include "../trap/extable.h"
#include "../trap/ptrace.h"

#define UC    MCI_STATUS_UC
#define S     MCI_STATUS_S
#define AR    MCI_STATUS_AR
#define OVER  MCI_STATUS_OVER
#define PCC   MCI_STATUS_PCC
#define EN    MCI_STATUS_EN
#define SOUND (MCI_STATUS_VAL | MCI_STATUS_EN)
#define PLACE (MCI_STATUS_ADDRV | MCI_STATUS_MISCV)
#define SRAO  (SOUND | UC | S | PLACE)
#define SRAR  (SRAO | AR)
#define RIPV  MCG_STATUS_RIPV
#define EIPV  MCG_STATUS_EIPV
#define MCIP  MCG_STATUS_MCIP
#define ALL   (RIPV | EIPV | MCIP)
#define DATA  MCACOD_DATA

/* -------------------------------------------------------------------- the grader */

static const struct mce_config intel = {.vendor = VENDOR_INTEL, .model = 0x55, .stepping = 7,
					.ser = true};
static const struct mce_config noser = {.vendor = VENDOR_INTEL, .model = 0x1a};

static const struct graded {
	const char *name; /* mce-test's, where it has one */
	const struct mce_config *cfg;
	u64 status, mcg;
	enum mce_context ctx;
	bool poll;
	enum mce_severity want;
} intel_rows[] = {
	/* recoverable_ucr */
	{"srao_ewb", &intel, SRAO | MCACOD_L3WB, ALL, IN_KERNEL, false, MCE_AO_SEVERITY},
	{"srao_mem_scrub", &intel, SRAO | MCACOD_SCRUB, ALL, IN_KERNEL, false, MCE_AO_SEVERITY},
	{"srao_no_en", &intel, (SRAO & ~EN) | MCACOD_SCRUB, ALL, IN_KERNEL, false, MCE_NO_SEVERITY},
	{"srao_over", &intel, SRAO | OVER | MCACOD_SCRUB, ALL, IN_KERNEL, false, MCE_AO_SEVERITY},
	{"srao_ucna", &intel, SOUND | UC | PLACE | 0x9, ALL, IN_KERNEL, false, MCE_UCNA_SEVERITY},
	{"srao_unknown", &intel, SRAO | 0x9, ALL, IN_KERNEL, false, MCE_SOME_SEVERITY},
	{"srao_unknown_over", &intel, SRAO | OVER | 0x9, ALL, IN_KERNEL, false, MCE_SOME_SEVERITY},
	{"srao_corrected", &intel, SOUND | PLACE | 0x9, ALL, IN_KERNEL, false, MCE_KEEP_SEVERITY},
	{"srar_usr_dcu", &intel, SRAR | DATA, ALL, IN_USER, false, MCE_AR_SEVERITY},
	{"srar_usr_ifu", &intel, SRAR | MCACOD_INSTR, ALL, IN_USER, false, MCE_AR_SEVERITY},
	{"srar_copy", &intel, SRAR | DATA, ALL, IN_KERNEL_RECOV, false, MCE_AR_SEVERITY},
	{"srar_other_thread", &intel, SRAR | DATA, RIPV | MCIP, IN_KERNEL, false, MCE_KEEP_SEVERITY},
	/* panic_ucr */
	{"s0_ar1", &intel, SOUND | UC | AR | PLACE | DATA, ALL, IN_KERNEL_RECOV, false,
	 MCE_PANIC_SEVERITY},
	{"srao_ewb_noripv", &intel, SRAO | MCACOD_L3WB, MCIP, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"srao_mem_scrub_noripv", &intel, SRAO | MCACOD_SCRUB, MCIP | EIPV, IN_KERNEL, false,
	 MCE_PANIC_SEVERITY},
	{"srar_copy_noripv", &intel, SRAR | DATA, MCIP | EIPV, IN_KERNEL_RECOV, false,
	 MCE_PANIC_SEVERITY},
	{"srar_no_en", &intel, (SRAR & ~EN) | DATA, ALL, IN_USER, false, MCE_NO_SEVERITY},
	{"srar_over", &intel, SRAR | OVER | DATA, ALL, IN_KERNEL_RECOV, false, MCE_PANIC_SEVERITY},
	{"srar_unknown", &intel, SRAR | 0x9, ALL, IN_USER, false, MCE_PANIC_SEVERITY},
	{"srar_kernel_dcu", &intel, SRAR | DATA, ALL, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"srar_kernel_ifu", &intel, SRAR | MCACOD_INSTR, ALL, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"srar_copy_no_addr", &intel, (SRAR & ~PLACE) | DATA, ALL, IN_KERNEL_RECOV, false,
	 MCE_PANIC_SEVERITY},
	/* panic_npcc */
	{"uc_no_eripv", &intel, SRAR | DATA, MCIP, IN_USER, false, MCE_PANIC_SEVERITY},
	{"uc_no_mcip", &intel, SRAR | DATA, RIPV | EIPV, IN_USER, false, MCE_PANIC_SEVERITY},
	{"uncorrected", &noser, SOUND | UC | 0x9, ALL, IN_KERNEL, false, MCE_UC_SEVERITY},
	{"uncorrected_over", &noser, SOUND | UC | OVER | 0x9, ALL, IN_KERNEL, false,
	 MCE_PANIC_SEVERITY},
	{"unknown", &intel, SOUND | S | 0x9, ALL, IN_KERNEL, false, MCE_SOME_SEVERITY},
	/* panic */
	{"fatal", &intel, SRAR | PCC | DATA, MCIP, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"fatal_eipv", &intel, SRAR | PCC | DATA, MCIP | EIPV, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"fatal_ripv", &intel, SRAR | PCC | DATA, MCIP | RIPV, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"fatal_over", &intel, SRAR | PCC | OVER | DATA, ALL, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"fatal_no_en", &intel, (SRAR & ~EN) | PCC | DATA, ALL, IN_KERNEL, false, MCE_NO_SEVERITY},
	{"fatal_userspace", &intel, SRAR | PCC | DATA, ALL, IN_USER, false, MCE_PANIC_SEVERITY},
	{"fatal_in_copy", &intel, SRAR | PCC | DATA, ALL, IN_KERNEL_RECOV, false,
	 MCE_PANIC_SEVERITY},
	/* poll_ucr: nobody was interrupted, MCG_STATUS says nothing */
	{"ucna", &intel, SOUND | UC | PLACE | 0x9, 0, IN_KERNEL, true, MCE_UCNA_SEVERITY},
	{"ucna_over", &intel, SOUND | UC | OVER | PLACE | 0x9, 0, IN_KERNEL, true, MCE_UCNA_SEVERITY},
	{"srar_poll", &intel, SRAR | DATA, 0, IN_KERNEL, true, MCE_PANIC_SEVERITY},
	{"fatal_poll", &intel, SRAR | PCC | DATA, 0, IN_KERNEL, true, MCE_PANIC_SEVERITY},
	/* non-panic */
	{"corrected", &intel, SOUND | 0x9, 0, IN_KERNEL, true, MCE_KEEP_SEVERITY},
	{"corrected_over", &intel, SOUND | OVER | 0x9, 0, IN_KERNEL, true, MCE_KEEP_SEVERITY},
	{"corrected_noser", &noser, SOUND | 0x9, ALL, IN_KERNEL, false, MCE_KEEP_SEVERITY},
	{"empty", &intel, 0, ALL, IN_KERNEL, false, MCE_NO_SEVERITY},
};

static void grade_rows(struct test_run *t, const struct graded *rows, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct graded *r = &rows[i];
		struct mce m = {.status = r->status, .mcgstatus = r->mcg, .bank = 2};
		const char *msg = "";
		enum mce_severity s = mce_severity(&m, r->cfg, r->ctx, !r->poll, &msg);

		check(t, s == r->want, "%s: graded %s (%s), not %s", r->name, mce_severity_name(s), msg,
		      mce_severity_name(r->want));
	}
}

TEST(mce, severity_intel, "each row of mce-test's list gets the grade that Linux gives it", 0)
{
	static const struct mce_config older = {.vendor = VENDOR_INTEL, .model = 0x55, .stepping = 3,
						.ser = true};
	struct mce scrub = {.status = SOUND | PLACE | 0x001000c1, .mcgstatus = ALL, .bank = 13};

	grade_rows(t, intel_rows, ARRAY_SIZE(intel_rows));
	/* Skylake's patrol scrubber: the bank and the stepping decide. */
	check(t, mce_severity(&scrub, &intel, IN_KERNEL, false, NULL) == MCE_AO_SEVERITY,
	      "a patrol scrub error in bank 13 is not action optional");
	check(t, mce_severity(&scrub, &older, IN_KERNEL, false, NULL) == MCE_KEEP_SEVERITY,
	      "a patrol scrub error of stepping 3 is not kept");
	scrub.bank = 12;
	check(t, mce_severity(&scrub, &intel, IN_KERNEL, false, NULL) == MCE_KEEP_SEVERITY,
	      "a patrol scrub error in bank 12 is not kept");
	scrub.bank = 18;
	check(t, mce_severity(&scrub, &intel, IN_KERNEL, false, NULL) == MCE_AO_SEVERITY,
	      "a patrol scrub error in bank 18 is not action optional");
}

static const struct mce_config zen1 = {.vendor = VENDOR_HYGON, .model = 0x18};
static const struct mce_config zen = {.vendor = VENDOR_AMD, .overflow_recov = true, .succor = true,
				      .smca = true};
static const struct mce_config zen_old = {.vendor = VENDOR_AMD, .overflow_recov = true, .succor = true};

static const struct graded amd_rows[] = {
	{"amd_pcc", &zen, SOUND | UC | PCC, ALL, IN_KERNEL_RECOV, false, MCE_PANIC_SEVERITY},
	{"amd_deferred", &zen, SOUND | MCI_STATUS_DEFERRED, ALL, IN_KERNEL, false,
	 MCE_DEFERRED_SEVERITY},
	{"amd_corrected", &zen, SOUND, ALL, IN_KERNEL, false, MCE_KEEP_SEVERITY},
	{"amd_kernel", &zen, SOUND | UC, ALL, IN_KERNEL, false, MCE_PANIC_SEVERITY},
	{"amd_user", &zen, SOUND | UC, ALL, IN_USER, false, MCE_AR_SEVERITY},
	{"amd_copy", &zen, SOUND | UC, ALL, IN_KERNEL_RECOV, false, MCE_AR_SEVERITY},
	{"amd_copy_over", &zen, SOUND | UC | OVER, ALL, IN_KERNEL_RECOV, false, MCE_AR_SEVERITY},
	{"amd_copy_tcc", &zen, SOUND | UC | MCI_STATUS_TCC, ALL, IN_KERNEL_RECOV, false,
	 MCE_PANIC_SEVERITY},
	{"amd_copy_tcc_not_smca", &zen_old, SOUND | UC | MCI_STATUS_TCC, ALL, IN_KERNEL_RECOV, false,
	 MCE_AR_SEVERITY}, /* the bit means nothing there */
	{"hygon_over", &zen1, SOUND | UC | OVER, ALL, IN_KERNEL_RECOV, false, MCE_PANIC_SEVERITY},
	{"hygon_no_succor", &zen1, SOUND | UC, ALL, IN_USER, false, MCE_PANIC_SEVERITY},
	{"hygon_pcc", &zen1, SOUND | UC | PCC, ALL, IN_USER, false, MCE_PANIC_SEVERITY},
	{"hygon_corrected", &zen1, SOUND, ALL, IN_KERNEL, false, MCE_KEEP_SEVERITY},
};

TEST(mce, severity_amd, "AMD and Hygon are graded by their own rules", 0)
{
	grade_rows(t, amd_rows, ARRAY_SIZE(amd_rows));
}

/* An instruction with a machine-check-safe entry and one without, never executed. */
extern const u8 mce_test_safe[], mce_test_plain[], mce_test_fixup[];
__asm__(".pushsection .text\n"
	"mce_test_safe:	ud2\n"
	"mce_test_plain:	ud2\n"
	"mce_test_fixup:	ud2\n"
	".popsection\n" _ASM_EXTABLE_TYPE(mce_test_safe, mce_test_fixup, EX_TYPE_DEFAULT_MCE_SAFE)
		_ASM_EXTABLE_TYPE(mce_test_plain, mce_test_fixup, EX_TYPE_DEFAULT));

TEST(mce, context, "only a machine-check-safe entry with both RIPV and EIPV is recoverable", 0)
{
	struct mce m = {.ip = (u64)mce_test_safe, .mcgstatus = ALL, .cs = 0x38};
	struct pt_regs plain = {.ip = (u64)mce_test_plain};

	check(t, error_context(&m) == IN_KERNEL_RECOV, "a safe load is not recoverable");
	m.mcgstatus = MCIP | RIPV;
	check(t, error_context(&m) == IN_KERNEL, "recoverable although EIPV is clear");
	m.mcgstatus = MCIP | EIPV;
	check(t, error_context(&m) == IN_KERNEL, "recoverable although RIPV is clear");
	m.mcgstatus = ALL;
	m.ip = (u64)mce_test_plain;
	check(t, error_context(&m) == IN_KERNEL, "a store's entry covers machine checks");
	m.ip = (u64)mce_test_fixup;
	check(t, error_context(&m) == IN_KERNEL, "an instruction without entry is recoverable");
	check(t, !fixup_exception(&plain, X86_TRAP_MC, 0) && plain.ip == (u64)mce_test_plain,
	      "a machine check took the way of a page fault");
	check(t, fixup_exception(&plain, X86_TRAP_PF, 0) && plain.ip == (u64)mce_test_fixup,
	      "a page fault did not take its way");
	m.cs = 0x33;
	check(t, error_context(&m) == IN_USER, "ring 3 is not user context");
}

TEST(mce, words, "a bank is described in words", 0)
{
	struct mce m = {.status = SRAR | OVER | DATA, .addr = 0x12345000, .misc = 0x8c, .bank = 2};
	static const char *const want[] = {"bank 2", "uncorrected", "lost", "action required",
					   "data load", "0x12345000"};
	char text[240];

	mce_describe(&m, VENDOR_INTEL, text, sizeof(text));
	for (unsigned i = 0; i < ARRAY_SIZE(want); i++) {
		bool found = false;

		for (const char *p = text; *p && !found; p++) {
			unsigned n = 0;

			while (want[i][n] && p[n] == want[i][n])
				n++;
			found = !want[i][n];
		}
		check(t, found, "\"%s\" is not in \"%s\"", want[i], text);
	}
}

/* -------------------------------------------------------------------- a processor of memory */

#define BANKS 6

struct paper {
	struct mce_msr ops;
	u64 cap, mcg, misc_enable, status[BANKS], addr[BANKS], misc[BANKS];
	unsigned writes, mcg_writes, last_mcg_write, shutdowns;
	/* Raised within the write that clears MCG_STATUS, as a second error would be: at once. */
	bool second;
	bool second_continued;
	struct pt_regs second_regs;
	const struct mce_config *cfg;
};

static u64 *paper_reg(struct paper *p, u32 msr)
{
	static u64 none;
	unsigned bank = (msr - 0x400) / 4;

	none = 0;
	switch (msr) {
	case MSR_IA32_MCG_CAP:
		return &p->cap;
	case MSR_IA32_MCG_STATUS:
		return &p->mcg;
	case 0x1a0:
		return &p->misc_enable;
	}
	if (msr < 0x400 || bank >= BANKS)
		return &none;
	return msr % 4 == 1 ? &p->status[bank] : msr % 4 == 2 ? &p->addr[bank] : &p->misc[bank];
}

static u64 paper_read(const struct mce_msr *ops, u32 msr)
{
	return *paper_reg(container_of(ops, struct paper, ops), msr);
}

/* A machine check at the safe load. With MCIP set the processor shuts down instead. */
static bool paper_raise(struct paper *p, struct pt_regs *regs, unsigned bank, u64 status)
{
	if (p->mcg & MCIP) {
		p->shutdowns++;
		return false;
	}
	p->status[bank] = status | (p->status[bank] & MCI_STATUS_VAL ? OVER : 0);
	p->addr[bank] = 0x12345000;
	p->misc[bank] = 0x8c;
	p->mcg = ALL;
	*regs = (struct pt_regs){.ip = (u64)mce_test_safe, .cs = 0x38};
	return mce_handle(regs, p->cfg, &p->ops);
}

static void paper_write(const struct mce_msr *ops, u32 msr, u64 value)
{
	struct paper *p = container_of(ops, struct paper, ops);

	p->writes++;
	*paper_reg(p, msr) = value;
	if (msr != MSR_IA32_MCG_STATUS)
		return;
	p->mcg_writes++;
	p->last_mcg_write = p->writes;
	if (p->second) {
		p->second = false;
		p->second_continued = paper_raise(p, &p->second_regs, 1, SRAR | DATA);
	}
}

static void paper_start(struct paper *p, const struct mce_config *cfg)
{
	memset(p, 0, sizeof(*p));
	p->ops = (struct mce_msr){paper_read, paper_write};
	p->cap = BANKS | MCG_CTL_P | MCG_SER_P;
	p->misc_enable = 1;
	p->cfg = cfg;
}

TEST(mce, handler_recovers, "a recoverable check goes to the fix-up; MCIP is cleared last", 0)
{
	struct paper p;
	struct pt_regs regs;

	paper_start(&p, &intel);
	check(t, paper_raise(&p, &regs, 1, SRAR | DATA), "a recoverable load was not recovered");
	check(t, regs.ip == (u64)mce_test_fixup, "execution does not go on at the fix-up");
	check(t, !p.status[1], "the bank was not cleared");
	check(t, !p.mcg, "MCG_STATUS was not cleared");
	check(t, p.mcg_writes == 1 && p.last_mcg_write == p.writes,
	      "MCIP was cleared before the banks: write %u of %u", p.last_mcg_write, p.writes);
}

TEST(mce, second_check, "a second check is survived once MCIP is clear, and refused before", 0)
{
	struct paper p;
	struct pt_regs regs;
	u64 before = mce_last.recovered;

	paper_start(&p, &intel);
	p.second = true;
	check(t, paper_raise(&p, &regs, 1, SRAR | DATA), "the first was not recovered");
	check(t, p.second_continued, "the second was not recovered (%s)", mce_last.msg);
	check(t, p.second_regs.ip == (u64)mce_test_fixup, "the second does not go to the fix-up");
	check(t, mce_last.recovered == before + 2, "not both were counted");
	check(t, !this_cpu()->in_mce && !p.mcg && !p.status[1], "something was left behind");
	check(t, !p.shutdowns, "a processor would have shut down");

	/* While the first is handled, as only a software interrupt can do it. */
	this_cpu()->in_mce = 1;
	check(t, !paper_raise(&p, &regs, 2, SRAR | DATA), "one within the other was continued");
	this_cpu()->in_mce = 0;
	/* And a processor refuses by itself while MCIP is set. */
	p.mcg = ALL;
	check(t, !paper_raise(&p, &regs, 3, SRAR | DATA) && p.shutdowns == 1,
	      "a check with MCIP set did not shut down");
}

/* What must not be continued, and what must leave its bank to the poller. */
TEST(mce, handler_grades, "fatal checks are not continued, corrected ones stay logged", 0)
{
	static const u64 fatal[] = {SRAR | PCC | DATA, SRAR | OVER | DATA, SRAR | 0x9,
				    SOUND | UC | AR | PLACE | DATA};
	struct pt_regs regs;
	struct paper p;

	for (unsigned i = 0; i < ARRAY_SIZE(fatal); i++) {
		paper_start(&p, &intel);
		check(t, !paper_raise(&p, &regs, 1, fatal[i]), "status 0x%lx was continued",
		      (unsigned long)fatal[i]);
		check(t, p.status[1] && p.mcg, "a fatal check did not keep its evidence");
		check(t, regs.ip == (u64)mce_test_safe, "a fatal check moved the instruction pointer");
		this_cpu()->in_mce = 0;
	}
	paper_start(&p, &noser);
	check(t, !paper_raise(&p, &regs, 1, SOUND | UC | 0x9), "an uncorrected error was continued");
	this_cpu()->in_mce = 0;
	paper_start(&p, &intel);
	p.status[3] = SOUND | 0x9;
	check(t, paper_raise(&p, &regs, 1, SRAR | DATA), "a corrected error beside it was in the way");
	check(t, p.status[3] && !p.status[1], "a corrected error was not left to the poller");
	paper_start(&p, &intel);
	p.mcg = ALL;
	regs = (struct pt_regs){.ip = (u64)mce_test_safe, .cs = 0x38};
	check(t, !mce_handle(&regs, &intel, &p.ops), "a check that no bank knows was continued");
	this_cpu()->in_mce = 0;
}

/* -------------------------------------------------------------------- the rep movs erratum */

#define QUIRK (MCI_STATUS_VAL | UC | EN | PLACE | AR | S)

static bool quirk_taken(const struct mce_config *cfg, u64 status, u64 mcg, u64 misc_enable,
			struct paper *p)
{
	struct pt_regs regs = {.ip = (u64)mce_test_plain, .cs = 0x38};
	u64 before = mce_last.repmov_quirk;

	paper_start(p, cfg);
	p->status[1] = status;
	p->mcg = mcg;
	p->misc_enable = misc_enable;
	mce_handle(&regs, cfg, &p->ops);
	this_cpu()->in_mce = 0;
	return mce_last.repmov_quirk != before;
}

TEST(mce, repmov_quirk, "the rep movs erratum is known by exactly its signature", 0)
{
	static const u64 bits[] = {MCI_STATUS_VAL, UC, EN, MCI_STATUS_ADDRV, MCI_STATUS_MISCV,
				   AR, S, OVER, PCC};
	static const struct mce_config newer = {.vendor = VENDOR_INTEL, .model = 0x6a, .ser = true};
	const u64 local = ALL | MCG_STATUS_LMCES;
	bool was = mce_repmov_quirk;
	struct paper p;

	mce_repmov_quirk = true;
	check(t, quirk_taken(&intel, QUIRK | DATA, local, 1, &p), "the erratum was not recognised");
	check(t, !(p.misc_enable & 1), "fast strings are still on");
	check(t, !p.status[1] && !p.mcg, "bank 1 or MCG_STATUS was not cleared");
	for (unsigned i = 0; i < ARRAY_SIZE(bits); i++)
		check(t, !quirk_taken(&intel, (QUIRK | DATA) ^ bits[i], local, 1, &p),
		      "taken although bit 0x%lx is different", (unsigned long)bits[i]);
	check(t, !quirk_taken(&intel, QUIRK | DATA, ALL, 1, &p), "taken for a broadcast check");
	check(t, !quirk_taken(&intel, QUIRK | DATA, local, 0, &p), "taken with fast strings off");
	check(t, !quirk_taken(&newer, QUIRK | DATA, local, 1, &p), "taken on another model");
	mce_repmov_quirk = false;
	check(t, !quirk_taken(&intel, QUIRK | DATA, local, 1, &p), "taken although it is off");
	mce_repmov_quirk = was;
}
