/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Making machine checks: by writing the banks and `int $18` where the vendor allows it (soft), and
 * by asking a rig outside to stop the processor at a load and raise a real one (external).
 */
#ifndef MCSPIN_MCE_INJECT_H
#define MCSPIN_MCE_INJECT_H

#include "mce.h"

/* What is put into one bank, and with which MCG_STATUS. */
struct injection {
	const char *name;
	u64 status, mcgstatus;
	bool broadcast; /* external only */
};

/* What the handler made of it, on the processor that it hit. */
struct injected {
	u64 checks;	/* machine checks that arrived */
	bool continued; /* the last one was allowed to go on */
	bool fixed_up;	/* through the extable */
	const char *msg; /* the grader's sentence */
	u64 ip, addr, si;
};

/* Machine checks of the calling processor go to do_machine_check(), but what it would end the run
 * for is noted, swept from the banks and continued. One test at a time. */
void inject_catch(struct injected *out);
void inject_release(void);

/* What the rules of this machine say about it at a machine-check-safe load. */
enum mce_severity inject_grade(const struct injection *i);

/* Ask the rig for a recoverable check when this processor has passed the load `skip` times. False:
 * no rig answered within ten seconds. */
bool inject_at_load(const char *routine, u64 load, unsigned skip);

#endif
