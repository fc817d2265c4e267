/* SPDX-License-Identifier: GPL-2.0-only */
/* What a machine check was: the part of mce.h that each processor keeps (cpu/percpu.h). */
#ifndef MCSPIN_MCE_RECORD_H
#define MCSPIN_MCE_RECORD_H

#include "../types.h"

/* One bank, read or made up. */
struct mce {
	u64 status, addr, misc, mcgstatus;
	u64 ip;
	u16 cs;
	u8 bank;
};

enum mce_severity {
	MCE_NO_SEVERITY,
	MCE_DEFERRED_SEVERITY,
	MCE_UCNA_SEVERITY,
	MCE_KEEP_SEVERITY, /* leave the bank to the poller */
	MCE_SOME_SEVERITY,
	MCE_AO_SEVERITY,
	MCE_UC_SEVERITY,
	MCE_AR_SEVERITY,
	MCE_PANIC_SEVERITY,
};

/* What the last machine check on a processor was, and what became of it; for tests, for the crash
 * report. */
struct mce_record {
	struct mce worst;
	enum mce_severity severity;
	const char *msg;
	u64 count;	/* machine checks that came here */
	u64 recovered;	/* through the extable */
	u64 repmov_quirk;
	u64 si, di; /* as they were at the last one */
};

#endif
