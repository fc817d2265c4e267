/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * External injection: real machine checks at the very loads. For each load that the exception table
 * declares machine-check-safe, mcspin announces its address and waits until a rig outside has put a
 * breakpoint there; the rig stops the processor at the load, raises a machine check through the
 * virtual machine's monitor, and lets it go on. What comes back must be what the grader says, with
 * the saved IP at the load and a residue of exactly the bytes from the load's address on.
 *
 * An event "inject" says all that the rig needs; it answers by writing 1 to the byte at `go`. The
 * rig gives the address of the load as the bank's ADDR, as a memory controller would.
 */
#include "mce_inject.h"
#include "../bench/tsc.h"
#include "../copy/copy_mc.h"
#include "../cpu/smp.h"
#include "../platform.h"
#include "../report/event.h"
#include "../run/options.h"
#include "../run/run.h"
#include "../trap/extable.h"

#define STREAM (3 << 19) /* asm/copy_careful.h: from here on stores bypass the caches */
#define ROOM   (STREAM + 2 * PAGE_SIZE)
#define FILL   0xa5
#define WAIT_US 10000000

#define SOUND (MCI_STATUS_VAL | MCI_STATUS_EN | MCI_STATUS_ADDRV | MCI_STATUS_MISCV)
#define SRAR  (SOUND | MCI_STATUS_UC | MCI_STATUS_S | MCI_STATUS_AR | MCACOD_DATA)
#define ALL   (MCG_STATUS_RIPV | MCG_STATUS_EIPV | MCG_STATUS_MCIP)

static const struct injection local = {"recoverable", SRAR, ALL, false};
static const struct injection broadcast = {"recoverable, broadcast", SRAR, ALL, true};

/* Copies that between them execute every load of a routine: a source one off its alignment walks
 * the whole head, the length leaves single vectors and every step of the tail. */
static const struct shape {
	const char *name;
	copy_fn fn;
	unsigned len;
	u16 feature;
	u8 dst_at; /* the source is one off its alignment; with 0 the destination is as well */
} shapes[] = {
	{"copy_mc_fragile", copy_mc_fragile, 100, X86_FEATURE_ALWAYS, 0},
	{"copy_mc_generic", copy_mc_generic, 1500, X86_FEATURE_ERMS, 0},
	{"copy_mc_enhanced_fast_string", copy_mc_enhanced_fast_string, 1500,
	 X86_FEATURE_ALWAYS, 0},
	{"copy_mc_careful_gpr", copy_mc_careful_gpr, 118, X86_FEATURE_ALWAYS, 0},
	{"copy_mc_careful_sse2", copy_mc_careful_sse2, 302, X86_FEATURE_ALWAYS, 0},
	{"copy_mc_careful_sse2", copy_mc_careful_sse2, STREAM + 200, X86_FEATURE_ALWAYS, 0},
	{"copy_mc_careful_avx2", copy_mc_careful_avx2, 350, X86_FEATURE_AVX2, 0},
	{"copy_mc_careful_avx2", copy_mc_careful_avx2, STREAM + 200, X86_FEATURE_AVX2, 0},
	{"copy_mc_careful_avx512", copy_mc_careful_avx512, 702, X86_FEATURE_AVX512F, 0},
	{"copy_mc_careful_avx512", copy_mc_careful_avx512, STREAM + 300, X86_FEATURE_AVX512F, 0},
	{"copy_mc_careful_avx512", copy_mc_careful_avx512, 1063, X86_FEATURE_AVX512_VBMI, 5},
	{"copy_mc_careful_avx512", copy_mc_careful_avx512, STREAM + 300, X86_FEATURE_AVX512_VBMI, 5},
};

/* -------------------------------------------------------------------- one injection */

struct external {
	struct test_run *t;
	const struct shape *shape;
	const struct injection *what;
	u64 load;	/* address of the instruction */
	unsigned skip;	/* times it may pass before */
	u8 *dst;
	const u8 *src;
	unsigned long left;
	bool answered, vector;
	struct injected got;
};

static volatile u8 go;
static u64 number, arrived, missed;

static void tell_inject(const char *routine, u64 load, unsigned skip,
			const struct injection *what, unsigned cpu)
{
	go = 0;
	event_begin("inject");
	event_u64("number", ++number);
	event_u64("cpu", cpu);
	event_u64("apic_id", platform_apic_id(cpu));
	event_str("routine", routine);
	event_hex64("address", load);
	event_u64("skip", skip);
	event_hex64("go", (u64)&go);
	event_u64("bank", 2);
	event_hex64("status", what->status);
	event_hex64("mcg_status", what->mcgstatus);
	event_bool("broadcast", what->broadcast);
	event_str("what", what->name);
	event_end();
}

static void announce(const struct external *x, unsigned cpu)
{
	tell_inject(x->shape->name, x->load, x->skip, x->what, cpu);
}

/* The rig's answer, or false after WAIT_US. */
static bool wait_for_go(void)
{
	u64 start = rdtsc_ordered(), wait = tsc_from_us(WAIT_US);

	while (!go && rdtsc_ordered() - start < wait)
		cpu_relax();
	return go;
}

bool inject_at_load(const char *routine, u64 load, unsigned skip)
{
	tell_inject(routine, load, skip, &local, smp_processor_id());
	return wait_for_go();
}

static void copy_at_the_word(void *arg)
{
	struct external *x = arg;

	inject_catch(&x->got);
	x->vector = platform_vector_begin() == 0;
	x->answered = wait_for_go();
	if (x->answered)
		x->left = x->shape->fn(x->dst + x->shape->dst_at, x->src, x->shape->len);
	if (x->vector)
		platform_vector_end();
	inject_release();
}

/* Bytes before the load's address are copied, none behind. */
static void judge_bytes(const struct external *x, u64 good)
{
	const u8 *dst = x->dst + x->shape->dst_at;
	bool right = !memcmp(dst, x->src, good);

	for (u64 i = good; right && i < min_of(x->shape->len, good + 4096); i++)
		right = dst[i] == FILL;
	check(x->t, right, "%s at 0x%lx: the bytes are not those before the load",
	      x->shape->name, (unsigned long)x->load);
}

static void judge(const struct external *x)
{
	enum mce_severity grade = inject_grade(x->what);
	bool fatal = grade == MCE_PANIC_SEVERITY || grade == MCE_UC_SEVERITY;
	const char *name = x->shape->name;
	u64 at = x->got.addr - (u64)x->src;

	check(x->t, x->got.ip == x->load, "%s: the saved IP is 0x%lx, not 0x%lx", name,
	      (unsigned long)x->got.ip, (unsigned long)x->load);
	check(x->t, x->got.continued == !fatal, "%s, %s: %s, graded %s (%s)", name, x->what->name,
	      x->got.continued ? "continued" : "not continued", mce_severity_name(grade),
	      x->got.msg);
	check(x->t, x->got.fixed_up == (grade == MCE_AR_SEVERITY), "%s, %s: %s the fix-up", name,
	      x->what->name, x->got.fixed_up ? "went to" : "did not go to");
	if (grade != MCE_AR_SEVERITY) {
		check(x->t, !x->left, "%s, %s: %lu bytes were left", name, x->what->name, x->left);
		return;
	}
	if (check(x->t, at < x->shape->len, "%s: the bank's address is not in the source", name)) {
		check(x->t, x->left == x->shape->len - at, "%s at 0x%lx: residue %lu, not %lu", name,
		      (unsigned long)x->load, x->left, (unsigned long)(x->shape->len - at));
		judge_bytes(x, at);
	}
}

/* True when the load was reached. False: this shape does not execute it (so often), or no rig. */
static bool inject_one(struct external *x, unsigned cpu)
{
	int err;

	memset(x->dst, FILL, x->shape->len + x->shape->dst_at);
	announce(x, cpu);
	err = on_cpu(cpu, copy_at_the_word, x, WAIT_US / 1000 + 10000);
	if (!check(x->t, !err, "processor %u did not come back (error %d)", cpu, -err))
		return true;
	if (!check(x->t, x->answered, "no rig answered to injection %lu", (unsigned long)number))
		return true;
	if (!x->got.checks) {
		missed++;
		check(x->t, !x->left, "%s left bytes without a machine check", x->shape->name);
		return false;
	}
	arrived++;
	judge(x);
	return true;
}

/* -------------------------------------------------------------------- every load */

/* Begins behind all others, and needs AVX-512 as the routine does that it belongs to. */
extern const u8 copy_mc_careful_shift[];

/* The routine whose load this is: the nearest one that begins before it. */
static copy_fn routine_of(u64 load)
{
	copy_fn best = NULL;

	if (load >= (u64)copy_mc_careful_shift && load - (u64)copy_mc_careful_shift < 1024)
		return copy_mc_careful_avx512;
	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++) {
		u64 start = (u64)shapes[i].fn;

		if (start <= load && load - start < 2048 && start > (u64)best)
			best = shapes[i].fn;
	}
	return best;
}

static bool usable(const struct shape *s)
{
	return boot_cpu_has(s->feature);
}

static void every_load(struct external *x, unsigned cpu)
{
	for (const struct exception_table_entry *e = __start___ex_table; e < __stop___ex_table; e++) {
		u64 load = (u64)&e->insn + e->insn;
		copy_fn fn = routine_of(load);
		bool hit = false, any = false;

		if (!ex_mce_safe(e) || !fn)
			continue;
		for (unsigned i = 0; i < ARRAY_SIZE(shapes) && !hit; i++) {
			const struct shape *s = &shapes[i];

			if (s->fn != fn || !usable(s))
				continue;
			any = true;
			x->shape = s;
			x->load = load;
			hit = inject_one(x, cpu);
			if (x->t->failed > 5 || !x->answered)
				return;
		}
		check(x->t, hit || !any, "no shape reaches the load at 0x%lx", (unsigned long)load);
	}
}

static bool external_begin(struct test_run *t, struct external *x)
{
	*x = (struct external){.t = t, .what = &local};
	if (!options.inject) {
		check_skip(t, "no rig: inject=1 was not said");
		return false;
	}
	x->dst = platform_alloc(ROOM);
	x->src = platform_alloc(ROOM);
	if (!x->dst || !x->src) {
		check_error(t, "no memory for two buffers of %u bytes", ROOM);
		return false;
	}
	for (unsigned i = 0; i < ROOM; i++)
		((u8 *)x->src)[i] = (u8)(i * 7 + 1) == FILL ? 0 : (u8)(i * 7 + 1);
	x->src++; /* one off, so that a head has every step to make; REP MOVSB does not mind */
	x->dst++;
	number = arrived = missed = 0;
	return true;
}

static void external_end(struct external *x)
{
	if (x->dst)
		platform_free(x->dst - 1, ROOM);
	if (x->src)
		platform_free((void *)(x->src - 1), ROOM);
	check_note(x->t, "%lu real machine checks at %lu injections, %lu not reached",
		   (unsigned long)arrived, (unsigned long)number, (unsigned long)missed);
}

TEST(mce, external, "a real machine check at every load of every routine is recovered exactly",
     NEED_RING0 | NEED_MCE)
{
	struct external x;

	if (!external_begin(t, &x))
		return;
	every_load(&x, smp_processor_id());
	x.what = &broadcast;
	every_load(&x, smp_processor_id());
	external_end(&x);
}

TEST(mce, external_ap, "the same on another processor", NEED_RING0 | NEED_MCE | NEED_2_CPUS)
{
	struct external x;

	if (!external_begin(t, &x))
		return;
	every_load(&x, another_cpu());
	x.what = &broadcast;
	every_load(&x, another_cpu());
	external_end(&x);
}

/* REP MOVSB is interrupted between its iterations. */
static void counts(struct external *x, unsigned cpu)
{
	static const unsigned at[] = {1, 7, 63, 64, 200};

	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		x->shape = &shapes[2];
		x->load = (u64)copy_mc_enhanced_fast_string_copy;
		x->skip = at[i];
		inject_one(x, cpu);
	}
	x->skip = 0;
}

TEST(mce, external_rep_movsb, "rep movsb is hit at several counts and leaves exactly the rest",
     NEED_RING0 | NEED_MCE)
{
	struct external x;

	if (!external_begin(t, &x))
		return;
	counts(&x, smp_processor_id());
	if (another_cpu() < MAX_CPUS)
		counts(&x, another_cpu());
	external_end(&x);
}

static const struct injection kinds[] = {
	{"uncorrected without AR", (SRAR & ~MCI_STATUS_AR) | 0x9, ALL, false},
	{"uncorrected, no action", SOUND | MCI_STATUS_UC | 0x9, ALL, false},
	{"context corrupt", SRAR | MCI_STATUS_PCC, ALL, false},
	{"no restart IP", SRAR, MCG_STATUS_EIPV | MCG_STATUS_MCIP, false},
	{"overflow", SRAR | MCI_STATUS_OVER, ALL, false},
	{"overflow, broadcast", SRAR | MCI_STATUS_OVER, ALL, true},
};

TEST(mce, external_grades, "a check of each kind at a load ends as the grader says",
     NEED_RING0 | NEED_MCE)
{
	struct external x;

	if (!external_begin(t, &x))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		x.shape = &shapes[0];
		x.load = (u64)copy_mc_fragile_read_words;
		x.what = &kinds[i];
		inject_one(&x, smp_processor_id());
	}
	external_end(&x);
}

/* One injection at a word load of copy_mc_fragile on this processor, with nothing caught. */
static bool inject_plain(struct external *x, const struct injection *what)
{
	x->shape = &shapes[0];
	x->load = (u64)copy_mc_fragile_read_words;
	x->what = what;
	announce(x, smp_processor_id());
	if (!check(x->t, wait_for_go(), "no rig answered"))
		return false;
	x->left = x->shape->fn(x->dst, x->src, x->shape->len);
	return true;
}

TEST(mce, external_corrected, "a corrected error raises nothing and is found in its bank",
     NEED_RING0 | NEED_MCE)
{
	static const struct injection corrected = {"corrected", SOUND | 0x9, 0, false};
	struct external x;
	u64 status = 0;

	if (!external_begin(t, &x))
		return;
	if (inject_plain(&x, &corrected)) {
		check(t, !x.left, "the copy was disturbed");
		platform_rdmsr(MSR_IA32_MCx_STATUS(2), &status);
		check(t, status == corrected.status, "bank 2 does not hold the error: 0x%lx",
		      (unsigned long)status);
		inject_release();
	}
	external_end(&x);
}

TEST(mce, external_fatal, "asked for only: a fatal check ends the run with a decoded crash report",
     NEED_RING0 | NEED_MCE | NEED_ASKED)
{
	static const struct injection fatal = {"context corrupt", SRAR | MCI_STATUS_PCC, ALL, false};
	struct external x;

	if (!external_begin(t, &x))
		return;
	inject_plain(&x, &fatal);
	check(t, false, "the run went on after a fatal machine check");
	external_end(&x);
}
