/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The words that every room shares: fixed-width integers, and the handful of compiler helpers
 * that a kernel reader expects under these names. Nothing here knows a subject.
 */
#ifndef MCSPIN_TYPES_H
#define MCSPIN_TYPES_H

#ifndef __ASSEMBLY__

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#define static_assert _Static_assert

/* A host's C library spells some of these its own way. */
#undef __always_inline
#undef __packed
#undef __aligned
#undef __used
#undef __unused

#define ARRAY_SIZE(a)	       (sizeof(a) / sizeof((a)[0]))
#define __section(name)	       __attribute__((section(name)))
#define __used		       __attribute__((used))
#define __unused	       __attribute__((unused))
#define __packed	       __attribute__((packed))
#define __aligned(n)	       __attribute__((aligned(n)))
#define __noreturn	       __attribute__((noreturn))
#define noinline	       __attribute__((noinline))
#define __cold		       __attribute__((cold)) /* takes no time that is measured: small */
#define __always_inline	       inline __attribute__((always_inline))
#define __printf(fmt, first)   __attribute__((format(printf, fmt, first)))
#define likely(x)	       __builtin_expect(!!(x), 1)
#define unlikely(x)	       __builtin_expect(!!(x), 0)
#define barrier()	       __asm__ __volatile__("" ::: "memory")
#define READ_ONCE(x)	       (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v)       (*(volatile __typeof__(x) *)&(x) = (v))
#define container_of(p, t, m)  ((t *)((char *)(p) - offsetof(t, m)))
#define min_of(a, b)	       ((a) < (b) ? (a) : (b))
#define max_of(a, b)	       ((a) > (b) ? (a) : (b))
#define align_up(x, a)	       (((x) + (a) - 1) & ~((__typeof__(x))(a) - 1))
#define __stringify_1(...)     #__VA_ARGS__
#define __stringify(...)       __stringify_1(__VA_ARGS__)

/* a * b / c with a 128-bit product; the result must fit into 64 bits (c > 0), or #DE. The compiler
 * would call libgcc for this, which is not there. */
static inline u64 mul_div(u64 a, u64 b, u64 c)
{
	u64 low, high;

	__asm__("mulq %3" : "=a"(low), "=d"(high) : "a"(a), "rm"(b) : "cc");
	__asm__("divq %2" : "+a"(low), "+d"(high) : "rm"(c) : "cc");
	return low;
}

/* The C library's four, which the compiler may call on its own. On a machine efi/ provides them. */
void *memcpy(void *dst, const void *src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);

static inline u64 apart(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

static inline size_t text_length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

/*
 * Errors, as negative returns, under the kernel's names. The host's <errno.h> has the same values,
 * so a host test may include both.
 */
#ifndef EPERM
#define EPERM	  1
#define ENOENT	  2
#define EIO	  5
#define E2BIG	  7
#define EAGAIN	  11
#define ENOMEM	  12
#define EFAULT	  14
#define EBUSY	  16
#define EEXIST	  17
#define ENODEV	  19
#define EINVAL	  22
#define ENOSPC	  28
#define EROFS	  30
#define ERANGE	  34
#define EOPNOTSUPP 95
#define ETIMEDOUT 110
#endif

#endif /* !__ASSEMBLY__ */

/* Cache line of every processor mcspin runs on; layouts assert on it, the copies rely on it. */
#define CACHE_LINE 64
#define PAGE_SIZE  4096

#endif
