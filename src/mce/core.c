/* SPDX-License-Identifier: GPL-2.0-only */
/* The handler and the watch over the banks. */
#include "mce.h"
#include "../cpu/percpu.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/run.h"
#include "../trap/extable.h"
#include "../trap/ptrace.h"

#define MAX_BANKS	     64
#define MSR_IA32_MISC_ENABLE 0x1a0
#define FAST_STRING	     1ull

struct mce_record mce_last;
bool mce_repmov_quirk = true;

static u64 rd(u32 msr)
{
	u64 value;

	return platform_rdmsr(msr, &value) ? 0 : value;
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

static void read_bank(struct mce *m, unsigned bank)
{
	m->bank = (u8)bank;
	m->status = rd(MSR_IA32_MCx_STATUS(bank));
	m->addr = m->status & MCI_STATUS_ADDRV ? rd(MSR_IA32_MCx_ADDR(bank)) : 0;
	m->misc = m->status & MCI_STATUS_MISCV ? rd(MSR_IA32_MCx_MISC(bank)) : 0;
}

/*
 * Skylake-X, Cascade Lake and Cooper Lake: REP MOVS may take poison from the line behind its
 * source, with the IP behind the instruction. With fast strings off, returning lets the copy
 * complete, and a real error fires again (Linux: quirk_skylake_repmov()).
 */
static bool repmov_quirk(const struct mce_config *cfg, u64 mcgstatus)
{
	const u64 want = MCI_STATUS_VAL | MCI_STATUS_UC | MCI_STATUS_EN | MCI_STATUS_ADDRV |
			 MCI_STATUS_MISCV | MCI_STATUS_AR | MCI_STATUS_S;
	u64 misc, mc1;

	if (!mce_repmov_quirk || cfg->vendor != VENDOR_INTEL || cfg->model != 0x55)
		return false;
	misc = rd(MSR_IA32_MISC_ENABLE);
	if (!(mcgstatus & MCG_STATUS_LMCES) || !(misc & FAST_STRING))
		return false;
	mc1 = rd(MSR_IA32_MCx_STATUS(1));
	if ((mc1 & (want | MCI_STATUS_OVER | MCI_STATUS_PCC)) != want)
		return false;
	platform_wrmsr(MSR_IA32_MISC_ENABLE, misc & ~FAST_STRING);
	platform_wrmsr(MSR_IA32_MCx_STATUS(1), 0);
	platform_wrmsr(MSR_IA32_MCG_STATUS, 0);
	mce_last.repmov_quirk++;
	return true;
}

/* Grade every bank; the worst one into mce_last. Returns its severity. */
static enum mce_severity scan_banks(const struct mce_config *cfg, u64 cap, struct pt_regs *regs,
				    u64 mcgstatus, u64 *to_clear)
{
	enum mce_severity worst = MCE_NO_SEVERITY;
	unsigned banks = min_of(MCG_BANKCNT(cap), MAX_BANKS);

	*to_clear = 0;
	for (unsigned b = 0; b < banks; b++) {
		struct mce m = {.mcgstatus = mcgstatus, .ip = regs->ip, .cs = (u16)regs->cs};
		enum mce_severity s;
		const char *msg;

		read_bank(&m, b);
		if (!(m.status & MCI_STATUS_VAL))
			continue;
		s = mce_severity(&m, cfg, error_context(&m), true, &msg);
		/* Corrected and no-action errors stay for whoever polls. */
		if (s != MCE_KEEP_SEVERITY && s != MCE_UCNA_SEVERITY)
			*to_clear |= 1ull << b;
		if (s >= worst) {
			worst = s;
			mce_last.worst = m;
			mce_last.msg = msg;
		}
	}
	return worst;
}

bool do_machine_check(struct pt_regs *regs)
{
	u64 mcgstatus = rd(MSR_IA32_MCG_STATUS);
	struct mce_config cfg;
	enum mce_severity worst;
	u64 cap, to_clear;

	mce_this_machine(&cfg, &cap);
	if (!MCG_BANKCNT(cap))
		return false;
	if (this_cpu()->in_mce)
		return false; /* a second one while the first is handled: nothing can be trusted */
	if (repmov_quirk(&cfg, mcgstatus))
		return true;
	this_cpu()->in_mce = 1;
	mce_last.cpu = smp_processor_id();
	worst = scan_banks(&cfg, cap, regs, mcgstatus, &to_clear);
	mce_last.severity = worst;
	mce_last.count++;
	/* A panic leaves the banks as they are, for the crash report and for the BMC. */
	if (worst >= MCE_PANIC_SEVERITY || worst == MCE_UC_SEVERITY)
		return false;
	if (worst == MCE_AR_SEVERITY) {
		if (!fixup_exception(regs, X86_TRAP_MC, mce_last.worst.addr))
			return false;
		mce_last.recovered++;
	}
	for (unsigned b = 0; b < MAX_BANKS; b++) {
		if (to_clear & (1ull << b))
			platform_wrmsr(MSR_IA32_MCx_STATUS(b), 0);
	}
	this_cpu()->in_mce = 0;
	/* Last: until MCIP is clear, another machine check shuts the processor down. */
	platform_wrmsr(MSR_IA32_MCG_STATUS, 0);
	return true;
}

/* -------------------------------------------------------------------- watch */

static u64 known_status[MAX_BANKS];

static unsigned bank_count(void)
{
	if (!platform_ring0() || !boot_cpu_has(X86_FEATURE_MCA))
		return 0;
	return min_of(MCG_BANKCNT(rd(MSR_IA32_MCG_CAP)), (unsigned)MAX_BANKS);
}

static void tell_bank(const struct mce *m, const char *when)
{
	char text[200];

	mce_describe(m, boot_cpu_data.vendor, text, sizeof(text));
	event_begin("mce");
	event_str("when", when);
	event_u64("cpu", smp_processor_id());
	event_u64("bank", m->bank);
	event_hex64("status", m->status);
	event_str("text", text);
	event_end();
}

void mce_snapshot(void)
{
	for (unsigned b = 0; b < bank_count(); b++) {
		struct mce m = {0};

		read_bank(&m, b);
		known_status[b] = m.status;
		if (m.status & MCI_STATUS_VAL)
			tell_bank(&m, "before the run");
	}
}

void mce_check_banks(struct test_run *t)
{
	for (unsigned b = 0; b < bank_count(); b++) {
		struct mce m = {0};

		read_bank(&m, b);
		if (m.status == known_status[b])
			continue;
		known_status[b] = m.status;
		if (!(m.status & MCI_STATUS_VAL))
			continue;
		tell_bank(&m, run_doing());
		check(t, !(m.status & MCI_STATUS_UC), "an uncorrected error appeared in bank %u", b);
	}
}
