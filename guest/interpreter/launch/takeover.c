/* The dynamic linker finds this before the C library's and calls it as Python's program begins: what it is
 * given to run is not Python's main(), but ours. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "guest/interpreter/main.h"

#pragma GCC visibility push(default)

typedef int Main(int argc, char **argv, char **environment);
typedef int Start(Main *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*end)(void), void *stack);

Start __libc_start_main;

/* Takes this library out of the environment: programs that cells start are not to begin like this. */
static void forget_library(void)
{
    const char *value = getenv("LD_PRELOAD");
    const char *rest = value ? strchr(value, ':') : NULL;

    if (rest)
        setenv("LD_PRELOAD", rest + 1, 1);
    else
        unsetenv("LD_PRELOAD");
}

static int begin(int argc, char **argv, char **environment)
{
    forget_library();
    prctl(PR_SET_NAME, "limpet-interpreter");
    return interpreter_main(argc, argv);
}

int __libc_start_main(Main *unused, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void *stack)
{
    Start *real;

    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    return real(begin, argc, argv, init, fini, end, stack);
}
