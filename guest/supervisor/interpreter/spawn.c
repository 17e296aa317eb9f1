/* Starting the interpreter process. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/channel.h"
#include "guest/ring.h"
#include "guest/supervisor/interpreter/internal.h"
#include "proto/limits.h"

#define PRELOAD "LD_PRELOAD"

/* Giving up the supervisor's powers */

static int capabilities_clear(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

    /* setresuid clears nothing when the supervisor is not uid 0 and holds ambient capabilities. */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    if (syscall(SYS_capset, &header, none) < 0)
        return -errno;
    return 0;
}

static int capabilities_verify(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, held) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(held); i++)
        if (held[i].effective | held[i].permitted | held[i].inheritable)
            return -EPERM;
    return 0;
}

static int ids_verify(uid_t uid)
{
    uid_t users[3];
    gid_t groups[3];

    if (getresuid(&users[0], &users[1], &users[2]) < 0 || getresgid(&groups[0], &groups[1], &groups[2]) < 0)
        return -errno;
    for (size_t i = 0; i < 3; i++)
        if (users[i] != uid || groups[i] != uid)
            return -EPERM;
    return getgroups(0, NULL) == 0 ? 0 : -EPERM;
}

/* Drops every supplementary group and capability, and every way to gain one; `uid` becomes every user and
 * group id. All is verified afterwards. 0 or a negative errno. */
static int identity_drop(uid_t uid)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    r = capabilities_clear();
    if (r == 0)
        r = ids_verify(uid);
    if (r == 0)
        r = capabilities_verify();
    return r;
}

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

static void signals_reset(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
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
    r = command_line->same_user ? 0 : identity_drop(command_line->uid);
    if (r < 0)
        child_fail("cannot give up the supervisor's powers", "", -r);
    /* After the change of ids, which clears the setting. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if (chdir(command_line->directory) < 0)
        child_fail("cannot enter ", command_line->directory, errno);
    signals_reset();
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
