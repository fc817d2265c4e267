/* SPDX-License-Identifier: GPL-2.0-only */
/* The handler and the watch over the banks. */
#include "mce.h"
#include "../cpu/percpu.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/run.h"
#include "../trap/extable.h"
#include "../trap/ptrace.h"

#define MAX_BANKS	     64
#define FAST_STRING	     1ull

bool mce_repmov_quirk = true;

static u64 live_read(const struct mce_msr *ops, u32 msr)
{
	u64 value;

	return platform_rdmsr(msr, &value) ? 0 : value;
}

static void live_write(const struct mce_msr *ops, u32 msr, u64 value)
{
	platform_wrmsr(msr, value);
}

const struct mce_msr mce_msr_live = {live_read, live_write};

static u64 rd(u32 msr)
{
	return live_read(NULL, msr);
}

void mce_this_machine(struct mce_config *cfg, u64 *mcg_cap)
{
	*mcg_cap = rd(MSR_IA32_MCG_CAP);
	*cfg = (struct mce_config){
		.vendor = boot_cpu_data.vendor,
		.model = boot_cpu_data.model,
		.stepping = boot_cpu_data.stepping,
		.ser = *mcg_cap & MCG_SER_P,
		.overflow_recov = boot_cpu_has(X86_FEATURE_OVERFLOW_RECOV),
		.succor = boot_cpu_has(X86_FEATURE_SUCCOR),
		.smca = boot_cpu_has(X86_FEATURE_SMCA),
	};
}

static void read_bank(const struct mce_msr *ops, struct mce *m, unsigned bank)
{
	m->bank = (u8)bank;
	m->status = ops->read(ops, MSR_IA32_MCx_STATUS(bank));
	m->addr = m->status & MCI_STATUS_ADDRV ? ops->read(ops, MSR_IA32_MCx_ADDR(bank)) : 0;
	m->misc = m->status & MCI_STATUS_MISCV ? ops->read(ops, MSR_IA32_MCx_MISC(bank)) : 0;
}

/*
 * Skylake-X, Cascade Lake and Cooper Lake: REP MOVS may take poison from the line behind its
 * source, with the IP behind the instruction. With fast strings off, returning lets the copy
 * complete, and a real error fires again (Linux: quirk_skylake_repmov()).
 */
static bool repmov_quirk(const struct mce_config *cfg, const struct mce_msr *ops, u64 mcgstatus)
{
	const u64 want = MCI_STATUS_VAL | MCI_STATUS_UC | MCI_STATUS_EN | MCI_STATUS_ADDRV |
			 MCI_STATUS_MISCV | MCI_STATUS_AR | MCI_STATUS_S;
	u64 misc, mc1;

	if (!mce_repmov_quirk || cfg->vendor != VENDOR_INTEL || cfg->model != 0x55)
		return false;
	misc = ops->read(ops, MSR_IA32_MISC_ENABLE);
	if (!(mcgstatus & MCG_STATUS_LMCES) || !(misc & FAST_STRING))
		return false;
	mc1 = ops->read(ops, MSR_IA32_MCx_STATUS(1));
	if ((mc1 & (want | MCI_STATUS_OVER | MCI_STATUS_PCC)) != want)
		return false;
	ops->write(ops, MSR_IA32_MISC_ENABLE, misc & ~FAST_STRING);
	ops->write(ops, MSR_IA32_MCx_STATUS(1), 0);
	ops->write(ops, MSR_IA32_MCG_STATUS, 0);
	mce_last.repmov_quirk++;
	return true;
}

/* What a scan of the banks came to. */
struct scan {
	enum mce_severity worst;
	u64 valid, to_clear; /* a bit for each bank */
};

/* Grade every bank; the worst one into mce_last. */
static struct scan scan_banks(const struct mce_config *cfg, const struct mce_msr *ops,
			      const struct pt_regs *regs, u64 mcgstatus)
{
	unsigned banks = min_of(MCG_BANKCNT(ops->read(ops, MSR_IA32_MCG_CAP)), MAX_BANKS);
	struct scan scan = {MCE_NO_SEVERITY, 0, 0};

	for (unsigned b = 0; b < banks; b++) {
		struct mce m = {.mcgstatus = mcgstatus, .ip = regs->ip, .cs = (u16)regs->cs};
		enum mce_severity s;
		const char *msg;

		read_bank(ops, &m, b);
		if (!(m.status & MCI_STATUS_VAL))
			continue;
		scan.valid |= 1ull << b;
		s = mce_severity(&m, cfg, error_context(&m), true, &msg);
		/* Corrected and no-action errors stay for whoever polls. */
		if (s != MCE_KEEP_SEVERITY && s != MCE_UCNA_SEVERITY)
			scan.to_clear |= 1ull << b;
		if (s >= scan.worst) {
			scan.worst = s;
			mce_last.worst = m;
			mce_last.msg = msg;
		}
	}
	return scan;
}

static void clear_banks(const struct mce_msr *ops, u64 banks)
{
	for (unsigned b = 0; b < MAX_BANKS; b++) {
		if (banks & (1ull << b))
			ops->write(ops, MSR_IA32_MCx_STATUS(b), 0);
	}
}

/* May execution go on, and if only at the fix-up, is there one? */
static bool may_continue(const struct scan *scan, struct pt_regs *regs)
{
	if (!scan->valid) {
		mce_last.msg = "Machine check from unknown source";
		return false;
	}
	if (scan->worst >= MCE_PANIC_SEVERITY || scan->worst == MCE_UC_SEVERITY)
		return false;
	if (scan->worst == MCE_AR_SEVERITY) {
		if (!fixup_exception(regs, X86_TRAP_MC, mce_last.worst.addr))
			return false;
		mce_last.recovered++;
	}
	return true;
}

/*
 * No rendezvous: Linux waits for all processors of a broadcast and lets the worst grade decide for
 * all. Here each processor that sees something fatal ends the run by itself.
 */
bool mce_handle(struct pt_regs *regs, const struct mce_config *cfg, const struct mce_msr *ops)
{
	u64 mcgstatus = ops->read(ops, MSR_IA32_MCG_STATUS);
	struct scan scan;

	if (!MCG_BANKCNT(ops->read(ops, MSR_IA32_MCG_CAP)))
		return false;
	mce_last.count++;
	mce_last.si = regs->si;
	mce_last.di = regs->di;
	if (this_cpu()->in_mce) {
		/* While the first is handled nothing can be trusted; a processor would have shut down. */
		mce_last.msg = "A second machine check while the first is handled";
		mce_last.severity = MCE_PANIC_SEVERITY;
		return false;
	}
	if (repmov_quirk(cfg, ops, mcgstatus))
		return true;
	this_cpu()->in_mce = 1;
#ifdef MUTANT_MCIP
	ops->write(ops, MSR_IA32_MCG_STATUS, 0);
#endif
	scan = scan_banks(cfg, ops, regs, mcgstatus);
	mce_last.severity = scan.worst;
	/* A panic leaves the banks as they are, for the crash report and for the BMC. */
	if (!may_continue(&scan, regs))
		return false;
	clear_banks(ops, scan.to_clear);
	this_cpu()->in_mce = 0;
	/* Last: until MCIP is clear, another machine check shuts the processor down; from then on it
	 * must find everything in order. */
#ifndef MUTANT_MCIP
	ops->write(ops, MSR_IA32_MCG_STATUS, 0);
#endif
	return true;
}

bool do_machine_check(struct pt_regs *regs)
{
	struct mce_config cfg;
	u64 cap;

	mce_this_machine(&cfg, &cap);
	return mce_handle(regs, &cfg, &mce_msr_live);
}

/* -------------------------------------------------------------------- watch */

static u64 known_status[MAX_BANKS];

static unsigned bank_count(void)
{
	if (!platform_ring0() || !boot_cpu_has(X86_FEATURE_MCA))
		return 0;
	return min_of(MCG_BANKCNT(rd(MSR_IA32_MCG_CAP)), (unsigned)MAX_BANKS);
}

static void tell_bank(const struct mce *m, u32 cpu, const char *when)
{
	char text[200];

	mce_describe(m, boot_cpu_data.vendor, text, sizeof(text));
	event_begin("mce");
	event_str("when", when);
	event_u64("cpu", cpu);
	event_u64("bank", m->bank);
	event_hex64("status", m->status);
	event_str("text", text);
	event_end();
}

void mce_snapshot(void)
{
	for (unsigned b = 0; b < bank_count(); b++) {
		struct mce m = {0};

		read_bank(&mce_msr_live, &m, b);
		known_status[b] = m.status;
		if (m.status & MCI_STATUS_VAL)
			tell_bank(&m, smp_processor_id(), "before the run");
	}
}

/* Banks belong to a core: what others found since the last look. The first to find something new
 * writes it down. */
static struct {
	u32 found, cpu;
	struct mce first;
} elsewhere;

static void look_here(void *arg)
{
	u64 seen = 0, before = this_cpu()->banks_seen;

	if (smp_processor_id() == platform_control_cpu())
		return; /* it knows each bank's contents */
	for (unsigned b = 0; b < bank_count(); b++) {
		struct mce m = {0};

		read_bank(&mce_msr_live, &m, b);
		if (!(m.status & MCI_STATUS_VAL))
			continue;
		seen |= 1ull << b;
		if (before & (1ull << b) || __atomic_fetch_add(&elsewhere.found, 1, __ATOMIC_RELAXED))
			continue;
		elsewhere.cpu = smp_processor_id();
		elsewhere.first = m;
	}
	this_cpu()->banks_seen = seen;
}

unsigned mce_look_elsewhere(struct mce *first)
{
	elsewhere.found = 0;
	if (bank_count())
		on_each_cpu(look_here, NULL, 2000);
	*first = elsewhere.first;
	return elsewhere.found;
}

void mce_check_elsewhere(struct test_run *t)
{
	struct mce m;

	if (!mce_look_elsewhere(&m))
		return;
	tell_bank(&m, elsewhere.cpu, t ? run_doing() : "before the run");
	if (t)
		check(t, !(m.status & MCI_STATUS_UC), "an uncorrected error appeared in bank %u of "
		      "processor %u", m.bank, elsewhere.cpu);
}

void mce_check_banks(struct test_run *t)
{
	for (unsigned b = 0; b < bank_count(); b++) {
		struct mce m = {0};

		read_bank(&mce_msr_live, &m, b);
		if (m.status == known_status[b])
			continue;
		known_status[b] = m.status;
		if (!(m.status & MCI_STATUS_VAL))
			continue;
		tell_bank(&m, smp_processor_id(), run_doing());
		check(t, !(m.status & MCI_STATUS_UC), "an uncorrected error appeared in bank %u", b);
	}
}
