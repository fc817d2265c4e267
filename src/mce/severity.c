/* SPDX-License-Identifier: GPL-2.0-only */
/* The grader. Rows and sentences are Linux's severities[]; the first row that matches decides. */
#include "mce.h"
#include "../report/event.h"
#include "../trap/extable.h"

#define BITS_SAR  (MCI_STATUS_UC | MCI_STATUS_S | MCI_STATUS_AR)
#define BITS_UC_AR (MCI_STATUS_UC | MCI_STATUS_AR)
#define BITS_ADDR (MCI_STATUS_ADDRV | MCI_STATUS_MISCV)

enum { ANY, SER, NOSER };
enum { ANY_CTX, KERNEL, USER, RECOV };
enum { ANY_WAY, EXCP, NO_EXCP };

/* A row matches when status & mask == result, mcgstatus & mcgmask == mcgres, and the rest fits. */
static const struct severity_row {
	u64 mask, result;
	u8 mcgmask, mcgres, ser, ctx, excp;
	u8 model, min_stepping, bank_lo, bank_hi;
	enum mce_severity sev;
	const char *msg;
} rows[] = {
	{MCI_STATUS_VAL, 0, .sev = MCE_NO_SEVERITY, .msg = "Invalid"},
	{MCI_STATUS_EN, 0, .excp = EXCP, .sev = MCE_NO_SEVERITY, .msg = "Not enabled"},
#ifndef MUTANT_PCC
	{MCI_STATUS_PCC, MCI_STATUS_PCC, .sev = MCE_PANIC_SEVERITY,
	 .msg = "Processor context corrupt"},
#endif
	{0, 0, MCG_STATUS_MCIP, 0, .excp = EXCP, .sev = MCE_PANIC_SEVERITY,
	 .msg = "MCIP not set in MCA handler"},
	{0, 0, MCG_STATUS_RIPV | MCG_STATUS_EIPV, 0, .excp = EXCP, .sev = MCE_PANIC_SEVERITY,
	 .msg = "Neither restart nor error IP"},
	{0, 0, MCG_STATUS_RIPV, 0, .excp = EXCP, .ctx = KERNEL, .sev = MCE_PANIC_SEVERITY,
	 .msg = "In kernel and no restart IP"},
	{0, 0, MCG_STATUS_RIPV, 0, .excp = EXCP, .ctx = RECOV, .sev = MCE_PANIC_SEVERITY,
	 .msg = "In kernel and no restart IP"},
	{MCI_STATUS_UC | MCI_STATUS_DEFERRED | MCI_STATUS_POISON, MCI_STATUS_DEFERRED,
	 .ser = NOSER, .sev = MCE_DEFERRED_SEVERITY, .msg = "Deferred error"},
	{MCI_STATUS_UC, 0, .ser = NOSER, .sev = MCE_KEEP_SEVERITY, .msg = "Corrected error"},
	/* Known action-optional codes, signalled by #MC (S) or by CMCI. */
	{BITS_UC_AR | MCACOD_SCRUBMSK, MCI_STATUS_UC | MCACOD_SCRUB, .ser = SER,
	 .sev = MCE_AO_SEVERITY, .msg = "Action optional: memory scrubbing error"},
	{BITS_UC_AR | MCACOD, MCI_STATUS_UC | MCACOD_L3WB, .ser = SER,
	 .sev = MCE_AO_SEVERITY, .msg = "Action optional: last level cache writeback error"},
	/* Skylake and Cascade Lake report uncorrected patrol scrub errors as corrected. */
	{MCI_STATUS_UC | BITS_ADDR | 0xffffeff0ull, BITS_ADDR | 0x001000c0, .ser = SER,
	 .model = 0x55, .min_stepping = 4, .bank_lo = 13, .bank_hi = 18, .sev = MCE_AO_SEVERITY,
	 .msg = "Uncorrected Patrol Scrub Error"},
	{BITS_SAR, MCI_STATUS_UC, .ser = SER, .sev = MCE_UCNA_SEVERITY,
	 .msg = "Uncorrected no action required"},
	{BITS_SAR, MCI_STATUS_UC | MCI_STATUS_AR, .ser = SER, .sev = MCE_PANIC_SEVERITY,
	 .msg = "Illegal combination (UCNA with AR=1)"},
	{MCI_STATUS_S, 0, .ser = SER, .sev = MCE_KEEP_SEVERITY, .msg = "Non signaled machine check"},
	{BITS_SAR | MCI_STATUS_OVER, BITS_SAR | MCI_STATUS_OVER, .ser = SER,
	 .sev = MCE_PANIC_SEVERITY, .msg = "Action required with lost events"},
	{BITS_SAR | BITS_ADDR, BITS_SAR | BITS_ADDR, MCG_STATUS_RIPV | MCG_STATUS_EIPV,
	 MCG_STATUS_RIPV, .ser = SER, .sev = MCE_KEEP_SEVERITY,
	 .msg = "Action required but unaffected thread is continuable"},
	{BITS_SAR | BITS_ADDR | MCACOD, BITS_SAR | BITS_ADDR | MCACOD_DATA, .ser = SER, .ctx = RECOV,
	 .sev = MCE_AR_SEVERITY, .msg = "Action required: data load in error recoverable area of kernel"},
	{BITS_SAR | BITS_ADDR | MCACOD, BITS_SAR | BITS_ADDR | MCACOD_DATA, .ser = SER, .ctx = USER,
	 .sev = MCE_AR_SEVERITY, .msg = "Action required: data load error in a user process"},
	{BITS_SAR | BITS_ADDR | MCACOD, BITS_SAR | BITS_ADDR | MCACOD_INSTR, .ser = SER, .ctx = USER,
	 .sev = MCE_AR_SEVERITY, .msg = "Action required: instruction fetch error in a user process"},
	{BITS_SAR | BITS_ADDR | MCACOD, BITS_SAR | BITS_ADDR | MCACOD_DATA, .ser = SER, .ctx = KERNEL,
	 .sev = MCE_PANIC_SEVERITY, .msg = "Data load in unrecoverable area of kernel"},
	{BITS_SAR | BITS_ADDR | MCACOD, BITS_SAR | BITS_ADDR | MCACOD_INSTR, .ser = SER,
	 .ctx = KERNEL, .sev = MCE_PANIC_SEVERITY,
	 .msg = "Instruction fetch error in kernel"},
	{BITS_SAR, BITS_SAR, .ser = SER, .sev = MCE_PANIC_SEVERITY,
	 .msg = "Action required: unknown MCACOD"},
	{BITS_SAR, MCI_STATUS_UC | MCI_STATUS_S, .ser = SER, .sev = MCE_SOME_SEVERITY,
	 .msg = "Action optional: unknown MCACOD"},
	{BITS_SAR | MCI_STATUS_OVER, MCI_STATUS_UC | MCI_STATUS_S | MCI_STATUS_OVER, .ser = SER,
	 .sev = MCE_SOME_SEVERITY, .msg = "Action optional with lost events"},
	{MCI_STATUS_UC | MCI_STATUS_OVER, MCI_STATUS_UC | MCI_STATUS_OVER,
	 .sev = MCE_PANIC_SEVERITY, .msg = "Overflowed uncorrected"},
	{MCI_STATUS_UC, MCI_STATUS_UC, .ctx = USER, .sev = MCE_UC_SEVERITY,
	 .msg = "Uncorrected in a user process"},
	{MCI_STATUS_UC, MCI_STATUS_UC, .sev = MCE_UC_SEVERITY, .msg = "Uncorrected"},
	{0, 0, .sev = MCE_SOME_SEVERITY, .msg = "No match"}, /* always matches */
};

static bool row_matches(const struct severity_row *r, const struct mce *m,
			const struct mce_config *cfg, enum mce_context ctx, bool excp)
{
	static const enum mce_context contexts[] = {0, IN_KERNEL, IN_USER, IN_KERNEL_RECOV};

	if ((m->status & r->mask) != r->result || (m->mcgstatus & r->mcgmask) != r->mcgres)
		return false;
	if ((r->ser == SER && !cfg->ser) || (r->ser == NOSER && cfg->ser))
		return false;
	if (r->ctx != ANY_CTX && contexts[r->ctx] != ctx)
		return false;
	if ((r->excp == EXCP && !excp) || (r->excp == NO_EXCP && excp))
		return false;
	if (r->model && (cfg->model != r->model || cfg->stepping < r->min_stepping))
		return false;
	return !r->bank_lo || (m->bank >= r->bank_lo && m->bank <= r->bank_hi);
}

static enum mce_severity severity_intel(const struct mce *m, const struct mce_config *cfg,
					enum mce_context ctx, bool excp, const char **msg)
{
	for (const struct severity_row *r = rows;; r++) {
		if (row_matches(r, m, cfg, ctx, excp)) {
			*msg = r->msg;
			return r->sev;
		}
	}
}

static enum mce_severity say(const char **msg, enum mce_severity s, const char *text)
{
	*msg = text;
	return s;
}

/* AMD and Hygon, mce_severity_amd(). */
static enum mce_severity severity_amd(const struct mce *m, const struct mce_config *cfg,
				      enum mce_context ctx, const char **msg)
{
	if (!(m->status & MCI_STATUS_VAL))
		return say(msg, MCE_NO_SEVERITY, "Invalid");
	if (m->status & MCI_STATUS_PCC)
		return say(msg, MCE_PANIC_SEVERITY, "Processor context corrupt");
	if (m->status & MCI_STATUS_DEFERRED)
		return say(msg, MCE_DEFERRED_SEVERITY, "Deferred error");
	if (!(m->status & MCI_STATUS_UC))
		return say(msg, MCE_KEEP_SEVERITY, "Corrected error");
	if ((m->status & MCI_STATUS_OVER) && !cfg->overflow_recov)
		return say(msg, MCE_PANIC_SEVERITY, "Overflowed uncorrected error without MCA Overflow Recovery");
	if (!cfg->succor)
		return say(msg, MCE_PANIC_SEVERITY, "Uncorrected error without MCA Recovery");
	if (ctx == IN_KERNEL)
		return say(msg, MCE_PANIC_SEVERITY, "Uncorrected unrecoverable error in kernel context");
	if (cfg->smca && (m->status & MCI_STATUS_TCC) && ctx != IN_USER)
		return say(msg, MCE_PANIC_SEVERITY, "Task context corrupt in kernel");
	return say(msg, MCE_AR_SEVERITY, "Uncorrected error: action required");
}

enum mce_severity mce_severity(const struct mce *m, const struct mce_config *cfg,
			       enum mce_context ctx, bool excp, const char **msg)
{
	const char *unused;

	if (!msg)
		msg = &unused;
	if (cfg->vendor == VENDOR_AMD || cfg->vendor == VENDOR_HYGON)
		return severity_amd(m, cfg, ctx, msg);
	return severity_intel(m, cfg, ctx, excp, msg);
}

enum mce_context error_context(const struct mce *m)
{
	const u64 both = MCG_STATUS_RIPV | MCG_STATUS_EIPV;
	const struct exception_table_entry *e;

	if ((m->cs & 3) == 3)
		return IN_USER;
	if ((m->mcgstatus & both) != both)
		return IN_KERNEL;
	e = search_exception_tables(m->ip);
	return e && ex_mce_safe(e) ? IN_KERNEL_RECOV : IN_KERNEL;
}

const char *mce_severity_name(enum mce_severity s)
{
	static const char *const names[] = {"none", "deferred", "UCNA", "keep", "some",
					    "AO",   "UC",	"AR",	"panic"};

	return names[s];
}

static const char *mcacod_name(u64 status)
{
	u64 code = status & MCACOD;

	if (code == MCACOD_DATA)
		return "data load";
	if (code == MCACOD_INSTR)
		return "instruction fetch";
	if (code == MCACOD_L3WB)
		return "last-level cache write-back";
	if ((code & MCACOD_SCRUBMSK) == MCACOD_SCRUB)
		return "memory scrub";
	/* Compound codes, Intel SDM table 16-9. */
	if ((code & 0xef80) == 0x0080)
		return "memory controller";
	if ((code & 0xef00) == 0x0100)
		return "cache hierarchy";
	if ((code & 0xe800) == 0x0800)
		return "bus or interconnect";
	if ((code & 0xeff0) == 0x0010)
		return "TLB";
	return "other";
}

void mce_describe(const struct mce *m, enum cpu_vendor vendor, char *buf, size_t len)
{
	bool amd = vendor == VENDOR_AMD || vendor == VENDOR_HYGON;
	u64 s = m->status;
	size_t n;

	if (!(s & MCI_STATUS_VAL)) {
		mc_snprintf(buf, len, "bank %u: empty", m->bank);
		return;
	}
	n = mc_snprintf(buf, len, "bank %u: %s%s%s%s%s%s, %s error (0x%04llx)", m->bank,
			s & MCI_STATUS_UC ? "uncorrected" : "corrected",
			s & MCI_STATUS_OVER ? ", earlier errors lost" : "",
			s & MCI_STATUS_PCC ? ", processor context corrupt" : "",
			amd && (s & MCI_STATUS_DEFERRED) ? ", deferred" : "",
			amd && (s & MCI_STATUS_POISON) ? ", poison" : "",
			!amd && (s & MCI_STATUS_S)
				? (s & MCI_STATUS_AR ? ", action required" : ", action optional")
				: "",
			mcacod_name(s), (unsigned long long)(s & 0xffff));
	n = min_of(n, len);
	if (s & MCI_STATUS_ADDRV)
		n += mc_snprintf(buf + n, len - n, ", address 0x%llx", (unsigned long long)m->addr);
	n = min_of(n, len);
	if (s & MCI_STATUS_MISCV)
		mc_snprintf(buf + n, len - n, ", misc 0x%llx", (unsigned long long)m->misc);
}
