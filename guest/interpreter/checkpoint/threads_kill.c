/* The C library believes in the number that a thread had before it was made again; see threads.h. This is
 * found before its own. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>

#include "guest/interpreter/checkpoint/threads.h"

#pragma GCC visibility push(default)

int pthread_kill(pthread_t thread, int number)
{
    int (*real)(pthread_t thread, int number);
    pid_t made = threads_number(thread);
    int saved = errno;

    if (made == 0) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_kill");
        return real(thread, number);
    }
    int r = tgkill(getpid(), made, number) < 0 ? errno : 0;
    errno = saved;
    return r;
}
