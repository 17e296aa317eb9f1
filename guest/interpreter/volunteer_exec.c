/* A program that a cell starts goes first when memory runs out. Python starts them with vfork(), which runs
 * no handlers of fork(), and then exec, or with posix_spawn(). These are found before the C library's. */
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/interpreter/volunteer.h"

#pragma GCC visibility push(default)

int execve(const char *path, char *const arguments[], char *const environment[])
{
    int score = volunteer_score();

    volunteer_child();
    int r = (int)syscall(SYS_execve, path, arguments, environment);
    int error = errno;
    volunteer_set(score); /* failed: still the program that it was */
    errno = error;
    return r;
}

int execv(const char *path, char *const arguments[])
{
    return execve(path, arguments, environ);
}

typedef int Spawn(pid_t *ret, const char *program, const posix_spawn_file_actions_t *actions,
                  const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

/* The child has its score from this process, as it has the rest. */
static int spawn(const char *name, pid_t *ret, const char *program, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    Spawn *real;
    int score = volunteer_score();

    *(void **)&real = dlsym(RTLD_NEXT, name);
    volunteer_child();
    int r = real(ret, program, actions, attributes, arguments, environment);
    volunteer_set(score);
    return r;
}

int posix_spawn(pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn("posix_spawn", ret, path, actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t *ret, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn("posix_spawnp", ret, file, actions, attributes, arguments, environment);
}
