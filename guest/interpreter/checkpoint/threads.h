/* The other threads of the process across a copy of it. A copy is made with them all at rest: each is
 * signalled and rests in the handler, with its registers on its own stack. The original lets them go on. A
 * copy has their stacks and no threads; it makes them again when it is to run, and each returns from its
 * handler to the instruction it was at. None of them can tell, so no handler of a fork is called: neither
 * Python's nor those of libraries, which would give up, wait for or start anew the threads that are there.
 *
 * While they rest any of them may hold any lock: the thread that copies may not allocate memory, use stdio
 * or run Python.
 *
 * A thread made again is another one to the kernel. The C library is left to believe in the number it had:
 * locks that know their owner by it (recursive ones, and those of writers) may be held. */
#pragma once

#include <pthread.h>

#include "proto/base/base.h"

/* Once, on the main thread, before there is another. */
void threads_init(void);

/* On the main thread, as all below. */
bool threads_are_none(void);

/* Makes the others rest, with all signals blocked: 0, or a negative errno when one of them did not within
 * `limit` nanoseconds, and `why` says which. All go on then. */
int threads_rest(uint64_t limit, char *why, size_t size);

/* In a copy made meanwhile: makes them again, still at rest, or, with `wanted`, some of them. 0 or a negative
 * errno: the copy is of no use. */
int threads_make(bool (*wanted)(pthread_t thread));

/* They go on. */
void threads_go_on(void);

/* Returns the kernel's number of a thread that was made again in this process; 0 for others. For any
 * thread. */
pid_t threads_number(pthread_t thread);

/* Tells the kernel of the restartable sequences of a thread that clone() has made, or of a fork of one: the C
 * library goes on believing that they are registered, and sched_getcpu() would always give the same answer.
 */
void restartable_register(void);
