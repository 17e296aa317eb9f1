/* Functions of the C library that name a thread to the kernel. The library believes in the number that a
 * thread had before it was made again (threads.h), and these are found before its own. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "guest/interpreter/checkpoint/threads.h"

#pragma GCC visibility push(default)

/* As the kernel encodes it: time of a thread, spent on a processor. */
#define CLOCK_OF(number) ((clockid_t)(~(unsigned)(number) << 3 | 6u))

#define REAL(name)                                                                                           \
    __typeof__(name) *real;                                                                                  \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

/* Turns errno into what these functions return: they leave errno alone. */
static int result(int r, int saved)
{
    int error = r < 0 ? errno : 0;

    errno = saved;
    return error;
}

int pthread_kill(pthread_t thread, int number)
{
    pid_t made = threads_number(thread);
    int saved = errno;

    if (made)
        return result(tgkill(getpid(), made, number), saved);
    REAL(pthread_kill);
    return real(thread, number);
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *ret)
{
    pid_t made = threads_number(thread);
    int saved = errno;

    if (made)
        return result(sched_getaffinity(made, size, ret), saved);
    REAL(pthread_getaffinity_np);
    return real(thread, size, ret);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    pid_t made = threads_number(thread);
    int saved = errno;

    if (made)
        return result(sched_setaffinity(made, size, set), saved);
    REAL(pthread_setaffinity_np);
    return real(thread, size, set);
}

int pthread_getcpuclockid(pthread_t thread, clockid_t *ret)
{
    pid_t made = threads_number(thread);

    if (made) {
        *ret = CLOCK_OF(made);
        return 0;
    }
    REAL(pthread_getcpuclockid);
    return real(thread, ret);
}

/* Answers a thread that asks about itself, as it is in general. Another one may use its locks meanwhile. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *ret)
{
    pid_t made = pthread_equal(thread, pthread_self()) ? threads_number(thread) : 0;
    REAL(pthread_getattr_np);

    if (made == 0)
        return real(thread, ret);

    pid_t before = threads_believe(thread, made);
    int r = real(thread, ret);
    threads_believe(thread, before);
    return r;
}
