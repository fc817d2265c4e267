/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Poison in real memory, where a platform offers it: the ACPI error injection table (ACPI 6.5,
 * 18.6) is a list of register accesses for each action, and this interprets it. The table is
 * checked as a whole before any register is touched. Off unless einj=on: it can bring a machine down.
 */
#ifndef MCSPIN_MCE_EINJ_H
#define MCSPIN_MCE_EINJ_H

#include "../types.h"

enum einj_action {
	EINJ_BEGIN,
	EINJ_GET_TRIGGER_TABLE,
	EINJ_SET_ERROR_TYPE,
	EINJ_GET_ERROR_TYPE,
	EINJ_END,
	EINJ_EXECUTE,
	EINJ_CHECK_BUSY,
	EINJ_GET_STATUS,
	EINJ_SET_ERROR_TYPE_WITH_ADDRESS,
	EINJ_ACTIONS
};

#define EINJ_MEMORY_UNCORRECTABLE 0x10 /* error type: memory uncorrectable, non-fatal */
#define EINJ_FLAG_MEMORY	  0x2  /* flags of the address structure: address and mask valid */
#define EINJ_PAGE_MASK		  0xfffffffffffff000ull

/* Generic address structure, ACPI 6.5, 5.2.3.2. */
struct acpi_gas {
	u8 space; /* 0 system memory, 1 system I/O */
	u8 bit_width, bit_offset;
	u8 access; /* 1 byte, 2 word, 3 dword, 4 qword; 0: from the width */
	u64 address;
} __packed;

struct einj_entry {
	u8 action, instruction, flags, reserved;
	struct acpi_gas reg;
	u64 value, mask;
} __packed;
static_assert(sizeof(struct einj_entry) == 32, "ACPI 6.5, table 18.25");

/* What SET_ERROR_TYPE_WITH_ADDRESS points to, table 18.31. */
struct einj_address {
	u32 type, vendor, flags, apic_id;
	u64 address, mask;
	u32 pcie;
} __packed;
static_assert(sizeof(struct einj_address) == 36, "ACPI 6.5, table 18.31");

/* How registers are reached; tests have their own. 0, or -EFAULT where there is none. */
struct einj_io {
	int (*read)(const struct einj_io *io, u8 space, u64 address, unsigned bytes, u64 *value);
	int (*write)(const struct einj_io *io, u8 space, u64 address, unsigned bytes, u64 value);
};
extern const struct einj_io einj_io_live;

struct einj {
	const struct einj_entry *entries;
	unsigned count;
	const struct einj_io *io;
};

/* Check a table (its header included) and open it. 0; -EINVAL with one sentence in `why`. Touches
 * no register. */
int einj_open(struct einj *e, const void *table, size_t len, const struct einj_io *io, char *why,
	      size_t why_len);
/* Is there an entry for this action? */
bool einj_has(const struct einj *e, unsigned action);
/* Run all entries of an action: `value` goes into WRITE_REGISTER and comes back from reads. */
int einj_run(const struct einj *e, unsigned action, u64 *value);
/*
 * Can the platform poison memory at an address? 0, or -EOPNOTSUPP and a sentence. Reads only.
 */
int einj_can_poison(const struct einj *e, char *why, size_t why_len);
/* Poison the line at this physical address, not triggering it. 0, or a negative errno and a
 * sentence. Bounded: two seconds of the platform being busy. */
int einj_poison(const struct einj *e, u64 address, char *why, size_t why_len);

#endif
