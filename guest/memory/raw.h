/* System calls without the C library, whose memory the loader gives up. x86-64 alone. */
#pragma once

#include <sys/syscall.h>

/* Makes a system call; returns a negative errno if it fails. */
static inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

#define RAW_NTH(a, b, c, d, e, f, g, ...)                                                                    \
    raw(a, (long)(b), (long)(c), (long)(d), (long)(e), (long)(f), (long)(g))
#define RAW(...) RAW_NTH(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
