/* SPDX-License-Identifier: GPL-2.0-only */
#include "einj.h"
#include "../bench/tsc.h"
#include "../report/event.h"
#include "../trap/extable.h"

enum { READ_REGISTER, READ_REGISTER_VALUE, WRITE_REGISTER, WRITE_REGISTER_VALUE, NOOP, INSTRUCTIONS };

#define PRESERVE     1 /* entry flag: bits outside the mask keep what they hold */
#define SPACE_MEMORY 0
#define SPACE_IO     1
#define HEADER	     48 /* ACPI's header, then the injection header */
#define COUNT_AT     44
#define BUSY_US	     2000000

/* -------------------------------------------------------------------- registers of this machine */

/* One access of `bytes`; a register that is not there must not end the run. */
#define REACH(insn, ...)                                                                           \
	({                                                                                         \
		int err_ = 0;                                                                      \
		__asm__ volatile("1:	" insn "\n"                                                \
				 "	jmp 3f\n"                                                  \
				 "2:	movl %[fault], %[err]\n"                                   \
				 "3:\n" _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT)                 \
				 : [err] "+r"(err_), __VA_ARGS__);                                 \
		err_;                                                                              \
	})

static int read_memory(u64 address, unsigned bytes, u64 *value)
{
	u64 v = 0;
	int err;

	if (bytes == 1)
		err = REACH("movzbl (%[p]), %k[v]",
			    [v] "+r"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
	else if (bytes == 2)
		err = REACH("movzwl (%[p]), %k[v]",
			    [v] "+r"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
	else if (bytes == 4)
		err = REACH("movl (%[p]), %k[v]",
			    [v] "+r"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
	else
		err = REACH("movq (%[p]), %[v]",
			    [v] "+r"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
	*value = v;
	return err;
}

static int write_memory(u64 address, unsigned bytes, u64 v)
{
	if (bytes == 1)
		return REACH("movb %b[v], (%[p])",
			     [v] "+q"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
	if (bytes == 2)
		return REACH("movw %w[v], (%[p])",
			     [v] "+r"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
	if (bytes == 4)
		return REACH("movl %k[v], (%[p])",
			     [v] "+r"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
	return REACH("movq %[v], (%[p])",
		     [v] "+r"(v) : [p] "r"(address), [fault] "i"(-EFAULT) : "memory");
}

static int live_read(const struct einj_io *io, u8 space, u64 address, unsigned bytes, u64 *value)
{
	u32 v = 0;

	if (space == SPACE_MEMORY)
		return read_memory(address, bytes, value);
	if (bytes == 1)
		__asm__ volatile("inb %w1, %b0" : "+a"(v) : "Nd"((u16)address));
	else if (bytes == 2)
		__asm__ volatile("inw %w1, %w0" : "+a"(v) : "Nd"((u16)address));
	else
		__asm__ volatile("inl %w1, %0" : "=a"(v) : "Nd"((u16)address));
	*value = v;
	return 0;
}

static int live_write(const struct einj_io *io, u8 space, u64 address, unsigned bytes, u64 value)
{
	if (space == SPACE_MEMORY)
		return write_memory(address, bytes, value);
	if (bytes == 1)
		__asm__ volatile("outb %b0, %w1" ::"a"((u32)value), "Nd"((u16)address));
	else if (bytes == 2)
		__asm__ volatile("outw %w0, %w1" ::"a"((u32)value), "Nd"((u16)address));
	else
		__asm__ volatile("outl %0, %w1" ::"a"((u32)value), "Nd"((u16)address));
	return 0;
}

const struct einj_io einj_io_live = {live_read, live_write};

/* -------------------------------------------------------------------- the table */

static unsigned access_bytes(const struct acpi_gas *reg)
{
	return reg->access ? 1u << (reg->access - 1) : reg->bit_width / 8u;
}

/* What is wrong with an entry, or NULL. */
static const char *entry_fault(const struct einj_entry *n)
{
	const struct acpi_gas *reg = &n->reg;
	unsigned width = reg->bit_width;

	if (n->action >= EINJ_ACTIONS)
		return NULL; /* a vendor's own, or one from the future: never run */
	if (n->instruction >= INSTRUCTIONS)
		return "an instruction that does not exist";
	if (n->instruction == NOOP)
		return NULL;
	if (reg->space > SPACE_IO)
		return "a register neither in memory nor in I/O space";
	if (!reg->address)
		return "a register without address";
	if (reg->access > 4 || (width != 8 && width != 16 && width != 32 && width != 64))
		return "a register of impossible width";
	if (n->action == EINJ_SET_ERROR_TYPE_WITH_ADDRESS)
		return reg->space == SPACE_MEMORY ? NULL : "an address structure outside memory";
	if (access_bytes(reg) * 8 < width)
		return "a register wider than its access";
	if (reg->bit_offset >= width)
		return "a bit offset beyond its register";
	if (reg->space == SPACE_IO && (reg->address > 0xffff || access_bytes(reg) > 4))
		return "an I/O register that no port has";
	if (reg->space == SPACE_MEMORY && reg->address % access_bytes(reg))
		return "a register that is not aligned";
	return NULL;
}

static u32 read32(const u8 *p)
{
	u32 v;

	memcpy(&v, p, 4);
	return v;
}

static int refuse(int err, char *why, size_t len, const char *text)
{
	mc_snprintf(why, len, "EINJ: %s", text);
	return err;
}

int einj_open(struct einj *e, const void *table, size_t len, const struct einj_io *io, char *why,
	      size_t why_len)
{
	static const u8 needed[] = {EINJ_BEGIN,	      EINJ_GET_ERROR_TYPE, EINJ_END,
				    EINJ_EXECUTE,     EINJ_CHECK_BUSY,	   EINJ_GET_STATUS};
	const u8 *p = table;

	if (len < HEADER || memcmp(p, "EINJ", 4) || read32(p + 4) != len)
		return refuse(-EINVAL, why, why_len, "the table's header is damaged");
	e->count = read32(p + COUNT_AT);
	if (e->count > (len - HEADER) / sizeof(struct einj_entry))
		return refuse(-EINVAL, why, why_len, "more entries than the table has room for");
	e->entries = (const struct einj_entry *)(p + HEADER);
	e->io = io;
	for (unsigned i = 0; i < e->count; i++) {
		const char *fault = entry_fault(&e->entries[i]);

		if (fault) {
			mc_snprintf(why, why_len, "EINJ: entry %u has %s", i, fault);
			return -EINVAL;
		}
	}
	for (unsigned i = 0; i < ARRAY_SIZE(needed); i++) {
		if (!einj_has(e, needed[i])) {
			mc_snprintf(why, why_len, "EINJ: no entry for action %u", needed[i]);
			return -EINVAL;
		}
	}
	return 0;
}

bool einj_has(const struct einj *e, unsigned action)
{
	for (unsigned i = 0; i < e->count; i++) {
		if (e->entries[i].action == action)
			return true;
	}
	return false;
}

/* -------------------------------------------------------------------- interpreting */

static int read_reg(const struct einj *e, const struct einj_entry *n, u64 *value)
{
	int err = e->io->read(e->io, n->reg.space, n->reg.address, access_bytes(&n->reg), value);

	*value = *value >> n->reg.bit_offset & n->mask;
	return err;
}

static int write_reg(const struct einj *e, const struct einj_entry *n, u64 value)
{
	unsigned bytes = access_bytes(&n->reg);
	u64 old = 0;
	int err = 0;

	value = (value & n->mask) << n->reg.bit_offset;
	if (n->flags & PRESERVE) {
		err = e->io->read(e->io, n->reg.space, n->reg.address, bytes, &old);
		value |= old & ~(n->mask << n->reg.bit_offset);
	}
	return err ? err : e->io->write(e->io, n->reg.space, n->reg.address, bytes, value);
}

static int run_entry(const struct einj *e, const struct einj_entry *n, u64 *value)
{
	u64 got;
	int err;

	switch (n->instruction) {
	case READ_REGISTER:
		return read_reg(e, n, value);
	case READ_REGISTER_VALUE:
		err = read_reg(e, n, &got);
		*value = got == n->value;
		return err;
	case WRITE_REGISTER:
		return write_reg(e, n, *value);
	case WRITE_REGISTER_VALUE:
		return write_reg(e, n, n->value);
	default:
		return 0;
	}
}

int einj_run(const struct einj *e, unsigned action, u64 *value)
{
	int err = 0;

	for (unsigned i = 0; i < e->count && !err; i++) {
		if (e->entries[i].action == action)
			err = run_entry(e, &e->entries[i], value);
	}
	return err;
}

int einj_can_poison(const struct einj *e, char *why, size_t why_len)
{
	u64 types = 0;

	if (!einj_has(e, EINJ_SET_ERROR_TYPE_WITH_ADDRESS))
		return refuse(-EOPNOTSUPP, why, why_len, "the platform takes no address");
	if (einj_run(e, EINJ_GET_ERROR_TYPE, &types))
		return refuse(-EOPNOTSUPP, why, why_len, "a register of it cannot be reached");
	if (types & EINJ_MEMORY_UNCORRECTABLE)
		return 0;
	mc_snprintf(why, why_len,
		    "EINJ: the platform cannot make an uncorrectable memory error (types 0x%lx)",
		    (unsigned long)types);
	return -EOPNOTSUPP;
}

/* The structure beside the registers that takes type and address, field by field. */
static int set_address(const struct einj *e, u64 address)
{
	const struct {
		unsigned at, bytes;
		u64 value;
	} fields[] = {
		{offsetof(struct einj_address, type), 4, EINJ_MEMORY_UNCORRECTABLE},
		{offsetof(struct einj_address, flags), 4, EINJ_FLAG_MEMORY},
		{offsetof(struct einj_address, address), 8, address},
		{offsetof(struct einj_address, mask), 8, EINJ_PAGE_MASK},
	};
	u64 base = 0;
	int err = 0;

	for (unsigned i = 0; i < e->count && !base; i++) {
		if (e->entries[i].action == EINJ_SET_ERROR_TYPE_WITH_ADDRESS)
			base = e->entries[i].reg.address;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(fields) && !err; i++)
		err = e->io->write(e->io, SPACE_MEMORY, base + fields[i].at, fields[i].bytes,
				   fields[i].value);
	return err;
}

static int wait_while_busy(const struct einj *e)
{
	u64 start = rdtsc_ordered(), busy = 1;
	int err = 0;

	do {
		if (rdtsc_ordered() - start > tsc_from_us(BUSY_US))
			return -ETIMEDOUT;
		err = einj_run(e, EINJ_CHECK_BUSY, &busy);
	} while (!err && (busy & 1));
	return err;
}

int einj_poison(const struct einj *e, u64 address, char *why, size_t why_len)
{
	u64 value = 0, status = 0, end = 0;
	int err = einj_run(e, EINJ_BEGIN, &value);

	if (!err)
		err = set_address(e, address);
	if (!err)
		err = einj_run(e, EINJ_EXECUTE, &value);
	if (!err)
		err = wait_while_busy(e);
	if (!err)
		err = einj_run(e, EINJ_GET_STATUS, &status);
	/* The platform is let go in any case. */
	if (einj_run(e, EINJ_END, &end) && !err)
		err = -EFAULT;
	if (err) {
		mc_snprintf(why, why_len, "EINJ: %s",
			    err == -ETIMEDOUT ? "the platform stayed busy for two seconds"
					      : "a register of it cannot be reached");
		return err;
	}
	/* Bits 8:1, ACPI 6.5, table 18.27. */
	if (status >> 1 & 0xff) {
		mc_snprintf(why, why_len, "EINJ: the platform refused with status %lu",
			    (unsigned long)(status >> 1 & 0xff));
		return -EIO;
	}
	return 0;
}
