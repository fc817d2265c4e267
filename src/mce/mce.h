/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Machine checks: reading the banks, grading what they say as Linux does (arch/x86/kernel/cpu/mce/
 * severity.c; Intel's rules, and the other ones of AMD and Hygon), recovering through the extable
 * when the grade allows, and saying in words what a bank holds. The grader is a pure function.
 */
#ifndef MCSPIN_MCE_MCE_H
#define MCSPIN_MCE_MCE_H

#include "../cpu/features.h"
#include "../cpu/percpu.h"
#include "record.h"

struct pt_regs;
struct test_run;

/* Intel SDM vol. 3B chapter 16, AMD APM vol. 2 chapter 9. */
#define MSR_IA32_MCG_CAP     0x179
#define MSR_IA32_MCG_STATUS  0x17a
#define MSR_IA32_MCG_CTL     0x17b
#define MSR_IA32_MCG_EXT_CTL 0x4d0
#define MSR_IA32_MCx_CTL(b)    (0x400 + 4 * (b))
#define MSR_IA32_MCx_STATUS(b) (0x401 + 4 * (b))
#define MSR_IA32_MCx_ADDR(b)   (0x402 + 4 * (b))
#define MSR_IA32_MCx_MISC(b)   (0x403 + 4 * (b))
#define MSR_K7_HWCR		       0xc0010015
#define HWCR_MCSTATUS_WREN	       (1ull << 18)
#define HWCR_IRPERF_TSC_P0	       (1ull << 24)

#define MCG_BANKCNT(cap) ((unsigned)((cap) & 0xff))
#define MCG_CTL_P	 (1ull << 8)
#define MCG_SER_P	 (1ull << 24)
#define MCG_LMCE_P	 (1ull << 27)

#define MCG_STATUS_RIPV	 (1ull << 0)
#define MCG_STATUS_EIPV	 (1ull << 1)
#define MCG_STATUS_MCIP	 (1ull << 2)
#define MCG_STATUS_LMCES (1ull << 3)

#define MCI_STATUS_VAL	    (1ull << 63)
#define MCI_STATUS_OVER	    (1ull << 62)
#define MCI_STATUS_UC	    (1ull << 61)
#define MCI_STATUS_EN	    (1ull << 60)
#define MCI_STATUS_MISCV    (1ull << 59)
#define MCI_STATUS_ADDRV    (1ull << 58)
#define MCI_STATUS_PCC	    (1ull << 57)
#define MCI_STATUS_S	    (1ull << 56)
#define MCI_STATUS_AR	    (1ull << 55)
#define MCI_STATUS_TCC	    (1ull << 55) /* AMD: task context corrupt */
#define MCI_STATUS_DEFERRED (1ull << 44)
#define MCI_STATUS_POISON   (1ull << 43)

#define MCACOD		0xefffull /* bit 12 is the threshold report, not the code */
#define MCACOD_SCRUB	0x00c0	  /* 0xc0 … 0xcf */
#define MCACOD_SCRUBMSK 0xeff0
#define MCACOD_L3WB	0x017a
#define MCACOD_DATA	0x0134
#define MCACOD_INSTR	0x0150

enum mce_context { IN_KERNEL, IN_USER, IN_KERNEL_RECOV };

/* What the rules depend on besides the bank. */
struct mce_config {
	enum cpu_vendor vendor;
	u32 model, stepping;
	bool ser; /* MCG_SER_P */
	bool overflow_recov, succor, smca;
};

/* Grade one bank. `excp`: a machine check was raised (false: the poller looks). `msg` gets Linux's
 * sentence for the row that matched; may be NULL. */
enum mce_severity mce_severity(const struct mce *m, const struct mce_config *cfg,
			       enum mce_context ctx, bool excp, const char **msg);
/* Where the machine check hit: user; recoverable when RIPV and EIPV are set and the extable has a
 * machine-check-safe entry for exactly this instruction. */
enum mce_context error_context(const struct mce *m);
const char *mce_severity_name(enum mce_severity s);
/* One bank in words: "bank 1: uncorrected, action required, data load (0x134), address 0x…". */
void mce_describe(const struct mce *m, enum cpu_vendor vendor, char *buf, size_t len);

/* Where the handler reads and writes: the processor's MSRs, or a test's. */
struct mce_msr {
	u64 (*read)(const struct mce_msr *ops, u32 msr); /* 0 where there is none */
	void (*write)(const struct mce_msr *ops, u32 msr, u64 value);
};
extern const struct mce_msr mce_msr_live;

/* #MC. True: `regs` continues. Any processor; called with interrupts off. */
bool do_machine_check(struct pt_regs *regs);
/* The same with other rules and other registers: what do_machine_check() is made of. */
bool mce_handle(struct pt_regs *regs, const struct mce_config *cfg, const struct mce_msr *ops);
/* This machine's rules, from boot_cpu_data and MCG_CAP. */
void mce_this_machine(struct mce_config *cfg, u64 *mcg_cap);

/* The last machine check on the calling processor. */
#define mce_last (this_cpu()->mce)

/* Banks as they are before the run, so that only news is reported. */
void mce_snapshot(void);
/* Look for bank contents that no test announced, on the calling processor; each is an event, an
 * uncorrected one fails the test. */
void mce_check_banks(struct test_run *t);
/* The same on all others at once; of several the first is told. NULL: before the run, nothing fails. */
void mce_check_elsewhere(struct test_run *t);
/* Banks elsewhere that hold something since the last look, and the first of them. */
unsigned mce_look_elsewhere(struct mce *first);

/* The rep-movs erratum of Skylake-X and its kin: on or off (default on, as in Linux). */
extern bool mce_repmov_quirk;

#endif
