/* Restartable sequences: memory of a thread that the kernel keeps current, for registered threads alone. */
#pragma once

#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/base.h"

/* Threads that clone() makes are not registered, nor are their forks, while the C library goes on believing
 * it: sched_getcpu() would always give the same answer. */
static inline void restartable_register(void)
{
#if defined(SYS_rseq) && defined(RSEQ_SIG)
    if (__rseq_size > 0)
        syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, MAX(__rseq_size, 32u), 0,
                RSEQ_SIG);
#endif
}
