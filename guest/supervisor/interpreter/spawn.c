/* Starting the interpreter process. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/channel.h"
#include "guest/ring.h"
#include "guest/supervisor/interpreter/internal.h"
#include "guest/supervisor/process/child.h"
#include "proto/limits.h"

#define PRELOAD "LD_PRELOAD"

/* The child */

/* Moves the descriptors to 0..3, or 4, and closes all others. */
static int descriptors_arrange(const SpawnPlan *plan)
{
    int source[] = {open("/dev/null", O_RDONLY | O_CLOEXEC), plan->out,
                    plan->err, [CHANNEL_FD] = plan->channel, [RING_FD] = plan->ring};
    int n = plan->ring < 0 ? RING_FD : (int)ARRAY_SIZE(source);

    /* The sources move out of the way first, so that no dup2 below hits one. */
    for (int i = 0; i < n; i++) {
        source[i] = fcntl(source[i], F_DUPFD_CLOEXEC, n);
        if (source[i] < 0)
            return -errno;
    }
    for (int i = 0; i < n; i++)
        if (dup2(source[i], i) < 0)
            return -errno;
    if (close_range((unsigned)n, ~0U, 0) < 0)
        return -errno;
    return 0;
}

/* Tells the supervisor, which reads standard error until the interpreter is ready. */
static _Noreturn void child_fail(const char *what, const char *which, int error)
{
    dprintf(STDERR_FILENO, "%s%s: %s\n", what, which, strerror(error));
    _exit(127);
}

/* An interpreter that has a library beside it is Python's own program: the library takes over before its
 * main() (guest/interpreter/launch). */
static int library_preload(const char *interpreter)
{
    const char *given = getenv(PRELOAD);
    char library[LIMIT_PATH], value[2 * LIMIT_PATH];

    if (snprintf(library, sizeof(library), "%s.so", interpreter) >= (int)sizeof(library))
        return -ENAMETOOLONG;
    if (access(library, F_OK) < 0)
        return 0;
    if (snprintf(value, sizeof(value), "%s%s%s", library, given ? ":" : "", given ? given : "") >=
        (int)sizeof(value))
        return -E2BIG;
    return setenv(PRELOAD, value, 1) < 0 ? -errno : 0;
}

/* The loader is beside the interpreter. */
static _Noreturn void child_become(const SpawnPlan *plan)
{
    char loader[LIMIT_PATH];

    if (snprintf(loader, sizeof(loader), "%s-loader", plan->command_line->interpreter) >= (int)sizeof(loader))
        child_fail("cannot execute the loader", "", ENAMETOOLONG);
    execve(loader, (char *[]){loader, (char *)plan->kept, NULL}, (char *[]){NULL});
    child_fail("cannot execute ", loader, errno);
}

/* Executes the interpreter at once. A program in between would cost as much as a call does, on some machines.
 */
static _Noreturn void child_execute(const SpawnPlan *plan)
{
    const char *interpreter = plan->command_line->interpreter;
    char memory[24];
    int r;

    environ = plan->environment;
    r = library_preload(interpreter);
    if (r < 0)
        child_fail("cannot load the library of ", interpreter, -r);
    snprintf(memory, sizeof(memory), "%" PRIu64, plan->memory);
    execv(interpreter, (char *[]){(char *)interpreter, memory, NULL});
    child_fail("cannot execute ", interpreter, errno);
}

static _Noreturn void child_run(const SpawnPlan *plan, pid_t parent)
{
    const CommandLine *command_line = plan->command_line;
    int r = descriptors_arrange(plan);

    if (r < 0)
        child_fail("cannot arrange descriptors", "", -r);
    setsid(); /* a new child leads no group: this cannot fail */
    umask(022);
    r = command_line->same_user ? 0 : child_drop_powers(command_line->uid, command_line->uid, 0);
    if (r < 0)
        child_fail("cannot give up the supervisor's powers", "", -r);
    /* After the change of ids, which clears the setting. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if (chdir(command_line->directory) < 0)
        child_fail("cannot enter ", command_line->directory, errno);
    child_unblock_signals();
    if (plan->kept)
        child_become(plan);
    child_execute(plan);
}

pid_t spawn_interpreter(const SpawnPlan *plan)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        return -errno;
    if (pid == 0)
        child_run(plan, parent);
    return pid;
}
