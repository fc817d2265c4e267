/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The patcher. It contains no site and calls nothing that does while it writes: a patcher that runs
 * through the code it is rewriting is Linux's d35652a5fc99.
 */
#include "alternative.h"
#include "insn.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"

#define INT3	   0xcc
#define JMP8	   0xeb
#define JMP32	   0xe9
#define CALL32	   0xe8
#define NOP_MAX	   11 /* longer ones stall decoders that dislike more than three prefixes */

/* Intel SDM, NOP: the recommended multi-byte forms, and prefixes up to eleven bytes. */
static const u8 nops[NOP_MAX + 1][NOP_MAX] = {
	[1] = {0x90},
	[2] = {0x66, 0x90},
	[3] = {0x0f, 0x1f, 0x00},
	[4] = {0x0f, 0x1f, 0x40, 0x00},
	[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00},
	[6] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
	[7] = {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
	[8] = {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	[9] = {0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	[10] = {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	[11] = {0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
};

void BUG_func(void)
{
	__asm__ volatile("ud2");
}

void nop_func(void)
{
}

void alt_fill_nops(u8 *buf, size_t len)
{
	if (!len)
		return;
	if (len <= NOP_MAX) {
		memcpy(buf, nops[len], len);
		return;
	}
	memset(buf, INT3, len);
	if (len < 128) {
		buf[0] = JMP8;
		buf[1] = (u8)(len - 2);
	} else {
		s32 rel = (s32)len - 5;

		buf[0] = JMP32;
		memcpy(buf + 1, &rel, 4);
	}
}

static s64 read_rel(const u8 *at, unsigned size)
{
	s32 rel;

	if (size == 1)
		return (s8)*at;
	memcpy(&rel, at, 4);
	return rel;
}

/* Mark where branches inside the code land: a NOP may not grow over such a place. */
static void find_targets(const u8 *buf, size_t len, u8 *target)
{
	struct insn insn;

	memset(target, 0, len);
	for (size_t at = 0; at < len; at += insn.length) {
		s64 to;

		if (insn_decode(&insn, buf + at, len - at))
			return;
		if (!insn.rel_size)
			continue;
		to = (s64)(at + insn.length) + read_rel(buf + at + insn.rel_at, insn.rel_size);
		if (to >= 0 && to < (s64)len)
			target[to] = 1;
	}
}

void alt_optimize_nops(u8 *buf, size_t len)
{
	size_t at = 0, run = 0; /* run: length of the NOPs that end at `at` */
	u8 target[ALT_MAX_LEN];
	struct insn insn;

	if (len > sizeof(target))
		return;
	find_targets(buf, len, target);
	while (at < len) {
		if (insn_decode(&insn, buf + at, len - at))
			return; /* not ours to understand: alt_decide() has judged it already */
		if (target[at]) {
			alt_fill_nops(buf + at - run, run);
			run = 0;
		}
		if (insn_is_nop(&insn, buf + at)) {
			run += insn.length;
		} else {
			alt_fill_nops(buf + at - run, run);
			run = 0;
		}
		at += insn.length;
	}
	alt_fill_nops(buf + at - run, run);
}

/* -------------------------------------------------------------------- relocation */

static int write_rel(u8 *at, unsigned size, s64 value)
{
	s32 rel = (s32)value;

	if (size == 1 ? value != (s8)value : value != rel)
		return -ERANGE;
	memcpy(at, &rel, size);
	return 0;
}

/* A displacement counted from `next`; moves it unless its target lies inside the code. */
static int move_rel(u8 *field, unsigned size, size_t next, size_t len, s64 moved)
{
	s64 rel = read_rel(field, size);
	s64 target = (s64)next + rel; /* relative to the code's start */

	if (target >= 0 && target <= (s64)len)
		return 0;
	return write_rel(field, size, rel + moved);
}

/* A jump of five bytes whose target two bytes reach. What is left over is never executed. */
static void shrink_jump(u8 *jump)
{
	s64 rel = read_rel(jump + 1, 4) + 5 - 2;

	if (rel != (s8)rel)
		return;
	jump[0] = JMP8;
	jump[1] = (u8)rel;
	memset(jump + 2, INT3, 3);
}

int alt_relocate(u8 *buf, size_t len, const u8 *from, const u8 *to)
{
	s64 moved = from - to;
	struct insn insn;

	for (size_t at = 0; at < len; at += insn.length) {
		u8 *here = buf + at;
		size_t next;
		int err = 0;

		if (insn_decode(&insn, here, len - at))
			return -EINVAL;
		next = at + insn.length;
		if (insn.rel_size)
			err = move_rel(here + insn.rel_at, insn.rel_size, next, len, moved);
		else if (insn.disp_at)
			err = move_rel(here + insn.disp_at, 4, next, len, moved);
		if (err)
			return err;
		if (!insn.map && !insn.vector && insn.opcode == JMP32 && insn.length == 5)
			shrink_jump(here);
	}
	return 0;
}

/* -------------------------------------------------------------------- deciding */

static u8 *entry_addr(const struct alt_instr *a)
{
	return (u8 *)&a->instr_offset + a->instr_offset;
}

static const u8 *entry_repl(const struct alt_instr *a)
{
	return (const u8 *)&a->repl_offset + a->repl_offset;
}

static bool applies(const struct alt_instr *a, const struct machine *m)
{
	bool has = a->cpuid < NR_X86_FEATURES && m->features[a->cpuid];

	return has != !!(a->flags & ALT_FLAG_NOT);
}

bool alt_marker_of_posting(const struct alt_instr *entry)
{
	return entry->replacementlen == 1 && *entry_repl(entry) == 0x90;
}

bool alt_decide_as_posted(u8 *after, const struct alt_instr *entry, const struct machine *m)
{
	const u8 *site = entry_addr(entry);

	memcpy(after, site, entry->instrlen);
	/* Ahead of all other checks, as posted: neither the feature nor the flags are looked at. */
	if (alt_marker_of_posting(entry)) {
		if (!m->features[X86_FEATURE_VCPUPREEMPT])
			alt_fill_nops(after, entry->instrlen);
		return true;
	}
	if (applies(entry, m)) {
		memset(after, 0x90, entry->instrlen);
		memcpy(after, entry_repl(entry), entry->replacementlen);
	}
	return false;
}

static int refuse(struct alt_plan *p, int err, const char *why)
{
	p->refused = true;
	p->chosen = -1;
	mc_snprintf(p->because, sizeof(p->because), "refused: %s", why);
	return err;
}

/* "ERMS (CPUID.7.0:EBX[9])" or "no ERMS (…)", joined by "; ". */
static void explain(struct alt_plan *p, const struct alt_instr *a, const struct machine *m)
{
	size_t have = 0;

	if (a->cpuid >= NR_X86_FEATURES || a->cpuid == X86_FEATURE_ALWAYS)
		return;
	while (p->because[have])
		have++;
	mc_snprintf(p->because + have, sizeof(p->because) - have, "%s%s%s (%s)", have ? "; " : "",
		    m->features[a->cpuid] ? "" : "no ", x86_feature_name(a->cpuid),
		    m->because[a->cpuid] ? m->because[a->cpuid] : "not decided");
}

/* Whole instructions from start to end, or the site is not what its entry says. */
static bool whole_instructions(const u8 *bytes, size_t len)
{
	struct insn insn;

	for (size_t at = 0; at < len; at += insn.length) {
		if (insn_decode(&insn, bytes + at, len - at))
			return false;
	}
	return true;
}

/* FF 15 disp32, through a pointer, becomes E8 rel32. Linux: alt_replace_call(). */
static int direct_call(struct alt_plan *p, const struct alt_instr *a)
{
	const u8 *target;
	s32 disp;

	if (p->before[0] != 0xff || p->before[1] != 0x15 || a->instrlen != 6 ||
	    a->replacementlen != 5 || *entry_repl(a) != CALL32)
		return refuse(p, -EINVAL, "a direct call needs FF 15 replaced by E8");
	memcpy(&disp, p->before + 2, 4);
	memcpy(&target, p->addr + 6 + disp, sizeof(target));
	if (target == (const u8 *)nop_func) {
		memset(p->after, 0x90, 6);
		return 0;
	}
	if (!target)
		target = (const u8 *)BUG_func;
	p->after[0] = CALL32;
	p->after[5] = 0x90;
	if (write_rel(p->after + 1, 4, target - (p->addr + 5)))
		return refuse(p, -ERANGE, "the direct call does not reach its target");
	return 0;
}

/* Between the labels of a C statement: something, and nothing that leaves before the end. */
static bool straight_line(const u8 *bytes, size_t len)
{
	struct insn insn;

	for (size_t at = 0; at < len; at += insn.length) {
		if (insn_decode(&insn, bytes + at, len - at) || insn_leaves(&insn))
			return false;
	}
	return len > 0;
}

static int take_entry(struct alt_plan *p, const struct alt_instr *a)
{
	int err;

	if (a->replacementlen > p->len)
		return refuse(p, -EINVAL, "the replacement is longer than the site");
	if (a->flags & ALT_FLAG_DIRECT_CALL)
		return direct_call(p, a);
	memset(p->after, 0x90, p->len);
	memcpy(p->after, entry_repl(a), a->replacementlen);
	/* Without the padding, which could complete the last one. */
	if (!whole_instructions(entry_repl(a), a->replacementlen))
		return refuse(p, -EINVAL, "the replacement holds no whole instructions");
	err = alt_relocate(p->after, a->replacementlen, entry_repl(a), p->addr);
	if (err)
		return refuse(p, err, "a displacement of the replacement no longer reaches");
	return 0;
}

static s16 site_id(const u8 *addr)
{
	for (const struct alt_site *s = __start_altsites; s < __stop_altsites; s++) {
		if ((const u8 *)&s->addr_offset + s->addr_offset == addr)
			return (s16)s->id;
	}
	return -1;
}

int alt_decide(struct alt_plan *p, const struct alt_instr *table, const struct alt_instr *end,
	       u8 *addr, const struct machine *m)
{
	const struct alt_instr *winner = NULL;
	s16 index = 0;

	memset(p, 0, sizeof(*p));
	p->addr = addr;
	p->chosen = -1;
	p->id = site_id(addr);
	for (const struct alt_instr *a = table; a < end; a++) {
		if (entry_addr(a) != addr)
			continue;
		p->len = max_of(p->len, a->instrlen);
		if (applies(a, m)) {
			winner = a;
			p->chosen = index;
		}
		explain(p, a, m);
		index++;
	}
	if (p->len > ALT_MAX_LEN)
		return refuse(p, -EINVAL, "the site is longer than 254 bytes");
	memcpy(p->before, addr, p->len);
	memcpy(p->after, addr, p->len);
	if (!whole_instructions(p->before, p->len))
		return refuse(p, -EINVAL, "the site holds no whole instructions");
	for (const struct alt_instr *a = table; a < end; a++) {
		if (entry_addr(a) == addr && (a->flags & ALT_FLAG_C_CODE) &&
		    !straight_line(p->before, p->len))
			return refuse(p, -EINVAL, "the C statement is not between its labels");
	}
	if (winner && take_entry(p, winner))
		return -EINVAL;
	alt_optimize_nops(p->after, p->len);
	return 0;
}

/* -------------------------------------------------------------------- names */

#define SITE(id, name, choices) {name, choices},
static const struct {
	const char *name, *choices;
} site_table[] = {MCSPIN_SITES(SITE)};
#undef SITE
static_assert(ARRAY_SIZE(site_table) == NR_MCSPIN_SITES, "the list and the numbers agree");

const char *alt_site_name(int id)
{
	return id >= 0 && id < NR_MCSPIN_SITES ? site_table[id].name : "unnamed";
}

void alt_choice_name(int id, int chosen, char *buf, size_t len)
{
	const char *word = id >= 0 && id < NR_MCSPIN_SITES ? site_table[id].choices : "";
	int n = 0;

	for (int i = 0; i <= chosen; i++) {
		while (*word && *word != ',')
			word++;
		word += *word == ',';
	}
	while (word[n] && word[n] != ',')
		n++;
	if (n)
		mc_snprintf(buf, len, "%.*s", n, word);
	else
		mc_snprintf(buf, len, chosen < 0 ? "original" : "replacement_%d", chosen);
}

/* -------------------------------------------------------------------- all of it */

static struct alt_plan *plans;
static unsigned plan_count;
static size_t plan_bytes;

const struct alt_plan *alt_plans(unsigned *count)
{
	*count = plan_count;
	return plans;
}

static bool first_of_address(const struct alt_instr *a)
{
	for (const struct alt_instr *b = __alt_instructions; b < a; b++) {
		if (entry_addr(b) == entry_addr(a))
			return false;
	}
	return true;
}

int alt_decide_lock(struct alt_plan *p, u8 *addr, const struct machine *m)
{
	bool up = m->features[X86_FEATURE_UP];

	memset(p, 0, sizeof(*p));
	p->addr = addr;
	p->len = 1;
	p->id = SITE_SMP_LOCK;
	p->chosen = up ? 0 : -1;
	p->before[0] = *addr;
	p->after[0] = up ? 0x3e : 0xf0;
	mc_snprintf(p->because, sizeof(p->because), "%sUP (%s)", up ? "" : "no ",
		    m->because[X86_FEATURE_UP]);
	if (*addr != 0xf0)
		return refuse(p, -EINVAL, "there is no LOCK prefix");
	return 0;
}

static int plan_all(const struct machine *m)
{
	size_t locks = __stop___smp_locks - __start___smp_locks;
	size_t entries = __alt_instructions_end - __alt_instructions;

	plan_bytes = (entries + locks) * sizeof(*plans);
	plans = platform_alloc(plan_bytes);
	if (!plans)
		return -ENOMEM;
	for (const struct alt_instr *a = __alt_instructions; a < __alt_instructions_end; a++) {
		if (first_of_address(a))
			alt_decide(&plans[plan_count++], __alt_instructions, __alt_instructions_end,
				   entry_addr(a), m);
	}
	for (const s32 *l = __start___smp_locks; l < __stop___smp_locks; l++)
		alt_decide_lock(&plans[plan_count++], (u8 *)l + *l, m);
	return 0;
}

/* Does the text hold `want`? What it holds instead is kept in the plan. */
static bool text_holds(struct alt_plan *p, const u8 *want)
{
	if (platform_text_read(p->addr, p->found, p->len))
		memset(p->found, 0, p->len);
	return !memcmp(p->found, want, p->len);
}

int alt_write(struct alt_plan *p)
{
	if (p->refused)
		return 0;
	if (!text_holds(p, p->before)) {
		p->mismatch = true;
		return refuse(p, -EIO, "the old bytes are not those that were decided on");
	}
	/* Byte by byte, so that no memcpy() which may itself be patched gets a say. */
	for (unsigned i = 0; i < p->len; i++)
		WRITE_ONCE(p->addr[i], p->after[i]);
	sync_core();
	if (!text_holds(p, p->after)) {
		p->mismatch = true;
		return refuse(p, -EIO, "the bytes read back are not those written");
	}
	return 0;
}

/* FNV-1a over the text outside every site: what must not change. */
static u64 fnv_bytes(u64 hash, const u8 *from, const u8 *to)
{
	while (from < to)
		hash = (hash ^ *from++) * 0x100000001b3ull;
	return hash;
}

/* The site that starts next at or after `from`, or NULL. */
static const struct alt_plan *next_plan(const u8 *from)
{
	const struct alt_plan *best = NULL;

	for (unsigned i = 0; i < plan_count; i++) {
		if (plans[i].addr >= from && (!best || plans[i].addr < best->addr))
			best = &plans[i];
	}
	return best;
}

u64 alt_hash_outside(void)
{
	u64 hash = 0xcbf29ce484222325ull;
	const struct alt_plan *p;
	u8 *at, *end;

	platform_text_range(&at, &end);
	while ((p = next_plan(at)) && p->addr < end) {
		hash = fnv_bytes(hash, at, p->addr);
		at = p->addr + max_of(p->len, 1);
	}
	return fnv_bytes(hash, at, end);
}

static const char *way_name(enum text_way way)
{
	static const char *const names[] = {
		"none", "EFI_MEMORY_ATTRIBUTE_PROTOCOL", "CR0.WP", "already writable", "mprotect",
	};

	return names[way];
}

static void tell_site(const struct alt_plan *p, u8 *text_start, bool written)
{
	u8 now[ALT_MAX_LEN];
	char choice[32];
	int chosen = written && !p->refused ? p->chosen : -1;

	alt_choice_name(p->id, chosen, choice, sizeof(choice));
	if (platform_text_read(p->addr, now, p->len))
		memset(now, 0, sizeof(now));
	event_begin("site");
	event_str("name", alt_site_name(p->id));
	event_hex64("address", (u64)p->addr);
	event_hex64("offset", (u64)(p->addr - text_start));
	event_str("choice", choice);
	event_fmt("because", "%s%s", written || p->chosen < 0 ? "" : "not written: ",
		  *p->because ? p->because : "unconditional");
	event_hex("before", p->before, p->len);
	event_hex("after", now, p->len);
	event_bool("refused", p->refused);
	if (p->mismatch) {
		event_hex("expected", p->before, p->len);
		event_hex("found", p->found, p->len);
	}
	event_end();
}

/* mutant=corrupt_site: one original byte of the test's own site is not what the build made. */
static void corrupt_one_plan(void)
{
	for (unsigned i = 0; i < plan_count; i++) {
		if (plans[i].id == SITE_ALT_TEST) {
			plans[i].before[0] ^= 1;
			return;
		}
	}
}

static void tell_patching(enum text_way way, u64 ticks, u64 hash_before, u64 hash_after)
{
	unsigned changed = 0, refused = 0;
	u8 *start, *end;

	platform_text_range(&start, &end);
	for (unsigned i = 0; i < plan_count; i++) {
		tell_site(&plans[i], start, way != TEXT_WAY_NONE);
		refused += plans[i].refused;
		changed += !plans[i].refused && plans[i].chosen >= 0;
	}
	event_begin("patching");
	event_str("way", way_name(way));
	event_u64("sites", plan_count);
	event_u64("replaced", changed);
	event_u64("refused", refused);
	event_u64("ticks", ticks);
	event_hex64("hash_before", hash_before);
	event_hex64("hash_after", hash_after);
	event_end();
	if (refused)
		run_worsen(RESULT_ERROR, "%u of %u sites were refused", refused, plan_count);
}

int alt_patch_all(void)
{
	u64 before, after, ticks = 0;
	enum text_way way;
	int err;

	err = plan_all(&boot_cpu_data);
	if (err) {
		run_worsen(RESULT_ERROR, "no memory to decide on the sites");
		return err;
	}
	if (*options.mutant && glob_list_match(options.mutant, "corrupt_site"))
		corrupt_one_plan();
	before = alt_hash_outside();
	way = platform_text_open();
	if (way != TEXT_WAY_NONE) {
		u32 low, high;

		__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
		ticks = (u64)high << 32 | low;
		for (unsigned i = 0; i < plan_count; i++)
			alt_write(&plans[i]);
		__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
		ticks = ((u64)high << 32 | low) - ticks;
		platform_text_close();
	}
	after = alt_hash_outside();
	tell_patching(way, ticks, before, after);
	if (before != after) {
		run_worsen(RESULT_ERROR, "text outside the sites changed while they were written");
		return -EIO;
	}
	if (way == TEXT_WAY_NONE) {
		event_warn("the text cannot be made writable here: nothing is patched, and what "
			   "needs patched sites is skipped");
		return -EPERM;
	}
	return 0;
}
