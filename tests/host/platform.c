/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * platform.h in a Linux process. Processors are pinned threads that wait for work; exceptions are
 * signals turned into struct pt_regs and back; the arena is shared memory mapped twice; text is
 * made writable by mprotect and read back through /proc/self/mem.
 */
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"
#include "../../src/cpu/features.h"
#include "../../src/cpu/percpu.h"
#include "../../src/platform.h"
#include "../../src/report/event.h"
#include "../../src/run/options.h"
#include "../../src/run/run.h"
#include "../../src/trap/trap.h"

#define ARENA_BYTES ((size_t)ARENA_PAGES * PAGE_SIZE)

static struct worker {
	struct percpu percpu;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	void (*fn)(void *);
	void *arg;
	int busy; /* 1 from post to the end of fn */
	bool lost;
} *workers;

static unsigned cpu_count = 1;
static int mem_fd = -1;
static u8 *arena, *arena_alias;
static const char *out_folder;
static FILE *log_file;
bool host_quiet;

/* -------------------------------------------------------------------- exceptions */

static void load_regs(struct pt_regs *r, const greg_t *g)
{
	*r = (struct pt_regs){
		.r15 = g[REG_R15], .r14 = g[REG_R14], .r13 = g[REG_R13], .r12 = g[REG_R12],
		.bp = g[REG_RBP],  .bx = g[REG_RBX],  .r11 = g[REG_R11], .r10 = g[REG_R10],
		.r9 = g[REG_R9],   .r8 = g[REG_R8],   .ax = g[REG_RAX],	 .cx = g[REG_RCX],
		.dx = g[REG_RDX],  .si = g[REG_RSI],  .di = g[REG_RDI],	 .ip = g[REG_RIP],
		.flags = g[REG_EFL], .sp = g[REG_RSP], .vector = g[REG_TRAPNO],
		.error_code = g[REG_ERR], .cs = 0x33,
	};
}

/* All of them: a fix-up changes few, a test's hook whichever it likes. */
static void store_regs(greg_t *g, const struct pt_regs *r)
{
	const struct {
		int index;
		u64 value;
	} regs[] = {
		{REG_R8, r->r8},   {REG_R9, r->r9},   {REG_R10, r->r10}, {REG_R11, r->r11},
		{REG_R12, r->r12}, {REG_R13, r->r13}, {REG_R14, r->r14}, {REG_R15, r->r15},
		{REG_RAX, r->ax},  {REG_RBX, r->bx},  {REG_RCX, r->cx},	 {REG_RDX, r->dx},
		{REG_RSI, r->si},  {REG_RDI, r->di},  {REG_RBP, r->bp},	 {REG_RSP, r->sp},
		{REG_RIP, r->ip},  {REG_EFL, r->flags},
	};

	for (size_t i = 0; i < ARRAY_SIZE(regs); i++)
		g[regs[i].index] = (greg_t)regs[i].value;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	struct pt_regs regs;
	u64 addr;

	(void)sig;
	(void)info;
	load_regs(&regs, g);
	addr = regs.vector == X86_TRAP_PF ? (u64)g[REG_CR2] : 0;
	if (!handle_trap(&regs, (unsigned)regs.vector, addr))
		platform_crash(&regs, (unsigned)regs.vector, "an exception that nothing expected");
	store_regs(g, &regs);
}

static void catch_signals(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGTRAP, SIGILL, SIGFPE};
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &sa, NULL);
}

/* Every processor has its own stack for signals, as the image has for its exceptions. */
static void own_signal_stack(void)
{
	stack_t ss = {.ss_size = 64 << 10};

	ss.ss_sp = mmap(NULL, ss.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&ss, NULL);
}

void platform_crash(const struct pt_regs *regs, unsigned vector, const char *why)
{
	fprintf(stderr, "crash: %s, %s on processor %u while running %s\n", why, trap_name(vector),
		smp_processor_id(), run_doing());
	if (regs)
		fprintf(stderr, "  ip %llx sp %llx ax %llx cx %llx dx %llx si %llx di %llx\n",
			(unsigned long long)regs->ip, (unsigned long long)regs->sp,
			(unsigned long long)regs->ax, (unsigned long long)regs->cx,
			(unsigned long long)regs->dx, (unsigned long long)regs->si,
			(unsigned long long)regs->di);
	_exit(3);
}

/* -------------------------------------------------------------------- processors */

static void become(struct worker *w)
{
	w->percpu.self = &w->percpu;
	syscall(SYS_arch_prctl, ARCH_SET_GS, &w->percpu);
	own_signal_stack();
}

static void pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	become(w);
	pin(w->percpu.cpu);
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->fn)
			pthread_cond_wait(&w->wake, &w->lock);
		pthread_mutex_unlock(&w->lock);
		w->fn(w->arg);
		pthread_mutex_lock(&w->lock);
		w->fn = NULL;
		__atomic_store_n(&w->busy, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

unsigned platform_cpus(void)
{
	return cpu_count;
}

bool platform_cpus_shared(void)
{
	return cpu_count > (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

unsigned platform_control_cpu(void)
{
	return 0;
}

bool platform_cpu_usable(unsigned cpu)
{
	return cpu < cpu_count && !workers[cpu].lost;
}

u32 platform_apic_id(unsigned cpu)
{
	return cpu;
}

int platform_post(unsigned cpu, void (*fn)(void *), void *arg)
{
	struct worker *w = &workers[cpu];

	if (!platform_cpu_usable(cpu) || !cpu)
		return -ENODEV;
	if (__atomic_load_n(&w->busy, __ATOMIC_ACQUIRE))
		return -EBUSY;
	pthread_mutex_lock(&w->lock);
	w->busy = 1;
	w->arg = arg;
	w->fn = fn;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static u64 now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000 + (u64)ts.tv_nsec / 1000000;
}

int platform_wait(unsigned cpu, u32 ms)
{
	u64 end = now_ms() + ms;

	while (__atomic_load_n(&workers[cpu].busy, __ATOMIC_ACQUIRE)) {
		if (now_ms() > end) {
			workers[cpu].lost = true;
			event_warn("processor %u did not finish in %u ms and is not used any more",
				   cpu, ms);
			return -ETIMEDOUT;
		}
		sched_yield();
	}
	return 0;
}

unsigned host_watch_s = 60;
static u32 irqs_off; /* regions begun by processor 0, twice, and whether it is in one now */

/* Only a thread of its own can see that all others wait for each other. */
static void *watch(void *arg)
{
	u32 seen = 0;

	for (unsigned same = 0; same <= host_watch_s; sleep(1)) {
		u32 now = __atomic_load_n(&irqs_off, __ATOMIC_RELAXED);

		same = now & 1 && now == seen ? same + 1 : 0;
		seen = now;
	}
	fprintf(stderr, "crash: processor 0 hung with interrupts off while running %s\n", run_doing());
	_exit(3);
	return arg;
}

unsigned long platform_irq_save(void)
{
	unsigned long nested = irqs_off & 1;

	if (!smp_processor_id() && !nested)
		__atomic_store_n(&irqs_off, irqs_off + 1, __ATOMIC_RELAXED);
	return nested;
}

void platform_irq_restore(unsigned long flags)
{
	if (!smp_processor_id() && !flags)
		__atomic_store_n(&irqs_off, irqs_off + 1, __ATOMIC_RELAXED);
}

int platform_sync_cores(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ? -EIO : 0;
}

/* -------------------------------------------------------------------- memory */

void *platform_alloc(size_t bytes)
{
	void *p = mmap(NULL, align_up(bytes, (size_t)PAGE_SIZE), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void platform_free(void *p, size_t bytes)
{
	munmap(p, align_up(bytes, (size_t)PAGE_SIZE));
}

void platform_keep(const void *p)
{
	(void)p;
}

u8 *platform_arena(void)
{
	return arena;
}

u8 *platform_arena_alias(void)
{
	return arena_alias;
}

const char *platform_arena_missing(void)
{
	return arena ? NULL : "no memory for the arena";
}

bool platform_arena_has_user(void)
{
	return false;
}

int platform_arena_protect(unsigned page, unsigned count, enum arena_rights rights)
{
	static const int prot[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE,
				   PROT_READ | PROT_WRITE};

	if (page + count > ARENA_PAGES)
		return -EINVAL;
	return mprotect(arena + (size_t)page * PAGE_SIZE, (size_t)count * PAGE_SIZE, prot[rights])
		       ? -errno
		       : 0;
}

static void make_arena(void)
{
	int fd = memfd_create("arena", 0);

	if (fd < 0 || ftruncate(fd, (off_t)ARENA_BYTES))
		return;
	arena_alias = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

/* -------------------------------------------------------------------- text */

/* Linker symbols of the program's own text. */
extern u8 __executable_start[], __etext[];

static u8 *text_start(void)
{
	return (u8 *)((u64)__executable_start & ~(u64)(PAGE_SIZE - 1));
}

static u8 *text_end(void)
{
	return (u8 *)align_up((u64)__etext, (u64)PAGE_SIZE);
}

enum text_way platform_text_open(void)
{
	if (mprotect(text_start(), (size_t)(text_end() - text_start()),
		     PROT_READ | PROT_WRITE | PROT_EXEC))
		return TEXT_WAY_NONE;
	return TEXT_WAY_MPROTECT;
}

void platform_text_close(void)
{
	mprotect(text_start(), (size_t)(text_end() - text_start()), PROT_READ | PROT_EXEC);
}

void platform_text_range(u8 **start, u8 **end)
{
	*start = text_start();
	*end = __etext;
}

int platform_text_read(const void *text, void *buf, size_t len)
{
	return pread(mem_fd, buf, len, (off_t)text) == (ssize_t)len ? 0 : -EIO;
}

/* -------------------------------------------------------------------- output */

void platform_stream(const char *line, size_t len)
{
	if (!host_quiet)
		fwrite(line, 1, len, stdout);
	if (log_file) {
		fwrite(line, 1, len, log_file);
		fflush(log_file);
	}
}

int platform_file_write(const char *name, const void *data, size_t len)
{
	char path[512];
	FILE *f;
	int err = 0;

	if (!out_folder)
		return -EROFS;
	snprintf(path, sizeof(path), "%s/%s", out_folder, name);
	f = fopen(path, "wb");
	if (!f)
		return -errno;
	if (fwrite(data, 1, len, f) != len)
		err = -ENOSPC;
	if (fclose(f))
		err = -ENOSPC;
	return err;
}

s64 platform_file_read(const char *path, void *buf, size_t cap)
{
	struct stat st;
	ssize_t got;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		close(fd);
		return -EIO;
	}
	got = read(fd, buf, cap);
	close(fd);
	return got < 0 ? -EIO : st.st_size;
}

bool platform_breathe(void)
{
	return false;
}

/* -------------------------------------------------------------------- hardware */

int platform_rdmsr(u32 msr, u64 *value)
{
	(void)msr;
	*value = 0;
	return -ENODEV;
}

int platform_wrmsr(u32 msr, u64 value)
{
	(void)msr;
	(void)value;
	return -ENODEV;
}

int platform_watchpoint(unsigned index, const void *addr, bool write_only)
{
	(void)index;
	(void)addr;
	(void)write_only;
	return -ENODEV;
}

u64 platform_debug_status(void)
{
	return 0;
}

int platform_vector_begin(void)
{
	return 0;
}

void platform_vector_end(void)
{
}

int platform_pci_read32(u32 segment, u32 bus, u32 dev, u32 fn, u32 offset, u32 *value)
{
	(void)segment;
	(void)bus;
	(void)dev;
	(void)fn;
	(void)offset;
	*value = ~0u;
	return -ENODEV;
}

const void *platform_acpi_table(const char signature[4], size_t *len)
{
	(void)signature;
	if (len)
		*len = 0;
	return NULL;
}

static u64 read_monotonic(const struct ref_timer *timer)
{
	struct timespec ts;

	(void)timer;
	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

unsigned platform_ref_timers(struct ref_timer *timers, unsigned max)
{
	if (!max)
		return 0;
	timers[0] = (struct ref_timer){"clock_gettime", 1000000000ull, 64, read_monotonic, 0};
	return 1;
}

const char *platform_firmware(void)
{
	return "none (Linux process)";
}

const char *platform_product(void)
{
	return "";
}

const char *platform_clock(void)
{
	static char text[32];
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

u64 platform_memory_bytes(void)
{
	return (u64)sysconf(_SC_PHYS_PAGES) * (u64)sysconf(_SC_PAGESIZE);
}

/* What ring 3 cannot use, whatever CPUID says. */
void platform_mask_features(struct machine *m)
{
	static const u8 privileged[] = {X86_FEATURE_SMAP, X86_FEATURE_SMEP, X86_FEATURE_VCPUPREEMPT};

	for (unsigned i = 0; i < ARRAY_SIZE(privileged); i++) {
		if (m->features[privileged[i]])
			setup_clear_cpu_cap(m, privileged[i], "a process in ring 3 cannot use it");
	}
}

bool platform_ring0(void)
{
	return false;
}

/* -------------------------------------------------------------------- start */

int host_start(unsigned cpus, const char *folder)
{
	char path[512];
	pthread_t watcher;

	cpu_count = cpus ? cpus : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	out_folder = folder;
	if (folder) {
		snprintf(path, sizeof(path), "%s/mcspin.log", folder);
		log_file = fopen(path, "w");
	}
	mem_fd = open("/proc/self/mem", O_RDONLY);
	workers = aligned_alloc(CACHE_LINE, cpu_count * sizeof(*workers));
	if (mem_fd < 0 || !workers)
		return -ENOMEM;
	memset(workers, 0, cpu_count * sizeof(*workers));
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	catch_signals();
	make_arena();
	for (unsigned i = 0; i < cpu_count; i++) {
		workers[i].percpu.cpu = i;
		workers[i].percpu.apic_id = i;
		pthread_mutex_init(&workers[i].lock, NULL);
		pthread_cond_init(&workers[i].wake, NULL);
	}
	become(&workers[0]);
	/* Before pinning: it shares no processor with what it watches, where there are two. */
	if (pthread_create(&watcher, NULL, watch, NULL))
		return -ENOMEM;
	pin(0);
	for (unsigned i = 1; i < cpu_count; i++) {
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return -ENOMEM;
	}
	return 0;
}
