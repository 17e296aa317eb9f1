#include "guest/supervisor/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "proto/base/base.h"

#define PRELOAD "LD_PRELOAD"

#define EXIT_CANNOT  126
#define EXIT_MISSING 127

/* ---- powers ---- */

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

static int ids_verify(uid_t uid, gid_t gid, gid_t mark)
{
    uid_t users[3];
    gid_t groups[3], more[2];

    if (getresuid(&users[0], &users[1], &users[2]) < 0 || getresgid(&groups[0], &groups[1], &groups[2]) < 0)
        return -errno;
    for (size_t i = 0; i < 3; i++)
        if (users[i] != uid || groups[i] != gid)
            return -EPERM;
    int n = getgroups(ARRAY_SIZE(more), more);
    return n == (mark ? 1 : 0) && (n == 0 || more[0] == mark) ? 0 : -EPERM;
}

/* Drops every capability and every way to gain one; `uid` becomes every user id and `gid` every group id,
 * `mark` (0: none) the only supplementary group, which nobody without powers loses again. All is verified
 * afterwards. */
static int drop_powers(uid_t uid, gid_t gid, gid_t mark)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (setgroups(mark ? 1 : 0, &mark) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    r = capabilities_clear();
    if (r == 0)
        r = ids_verify(uid, gid, mark);
    if (r == 0)
        r = capabilities_verify();
    return r;
}

/* ---- the child ---- */

static _Noreturn void fail(const SpawnSpec *spec, const char *what, const char *which, int error)
{
    bool missing = error == ENOENT && which == spec->argv[0];

    if (spec->is_command)
        dprintf(STDERR_FILENO, "limpet: %s: %s\n", *which ? which : what, strerror(error));
    else
        dprintf(STDERR_FILENO, "%s%s: %s\n", what, which, strerror(error));
    _exit(spec->is_command && !missing ? EXIT_CANNOT : EXIT_MISSING);
}

static int arrange_descriptors(const SpawnSpec *spec)
{
    int n = (int)spec->fd_count, source[SPAWN_FDS];

    /* The sources move out of the way first, so that no dup2 below hits one. */
    for (int i = 0; i < n; i++) {
        int fd = spec->fds[i];

        if (fd < 0)
            fd = open("/dev/null", (i == STDIN_FILENO ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
        source[i] = fcntl(fd, F_DUPFD_CLOEXEC, n);
        if (source[i] < 0)
            return -errno;
    }
    for (int i = 0; i < n; i++)
        if (dup2(source[i], i) < 0)
            return -errno;
    return close_range((unsigned)n, ~0U, 0) < 0 ? -errno : 0;
}

/* Variables live in interpreters: the kernel is to take a command before one of those. */
static void raise_oom_score(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, "1000", 4) < 0)
        errno = 0; /* where that is not allowed, the kernel chooses */
    close(fd);
}

static int become_user(const SpawnSpec *spec)
{
    const CommandLine *command_line = spec->command_line;

    if (command_line->same_user)
        return 0;
    return drop_powers(spec->uid ? spec->uid : command_line->uid, command_line->uid, spec->mark);
}

/* The supervisor ignores no signal, and execve() forgets which ones it handles. */
static void unblock_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int set_preload(const char *library)
{
    const char *given = getenv(PRELOAD);
    char value[2 * LIMIT_PATH];

    if (snprintf(value, sizeof(value), "%s%s%s", library, given ? ":" : "", given ? given : "") >=
        (int)sizeof(value))
        return -E2BIG;
    return setenv(PRELOAD, value, 1) < 0 ? -errno : 0;
}

/* Executes the program at once. Another one in between would cost as much as a call does, on some machines.
 */
static _Noreturn void execute(const SpawnSpec *spec)
{
    int r;

    environ = spec->environment;
    r = spec->preload ? set_preload(spec->preload) : 0;
    if (r < 0)
        fail(spec, "cannot load ", spec->preload, -r);
    execvp(spec->argv[0], spec->argv);
    fail(spec, "cannot execute ", spec->argv[0], errno);
}

static _Noreturn void run(const SpawnSpec *spec, pid_t parent)
{
    int r = arrange_descriptors(spec);

    if (r < 0)
        fail(spec, "cannot arrange descriptors", "", -r);
    setsid(); /* a new child leads no group: this cannot fail */
    if (spec->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
        fail(spec, "cannot have the terminal", "", errno);
    if (spec->is_command)
        raise_oom_score();
    umask(022);
    r = become_user(spec);
    if (r < 0)
        fail(spec, "cannot give up the supervisor's powers", "", -r);
    /* After the change of ids, which clears the setting. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CANNOT);
    if (chdir(spec->directory) < 0)
        fail(spec, "cannot enter ", spec->directory, errno);
    unblock_signals();
    execute(spec);
}

pid_t spawn(const SpawnSpec *spec)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        return -errno;
    if (pid == 0)
        run(spec, parent);
    return pid;
}

/* ---- acting as a user ---- */

int act_as(uid_t uid)
{
    if (uid == geteuid())
        return 0;
    if (setresgid((gid_t)-1, uid, (gid_t)-1) < 0 || setresuid((uid_t)-1, uid, (uid_t)-1) < 0)
        return -errno;
    return 0;
}

void act_as_self(void)
{
    if (setresuid((uid_t)-1, getuid(), (uid_t)-1) < 0 || setresgid((gid_t)-1, getgid(), (gid_t)-1) < 0)
        abort(); /* cannot fail: the real ids are always allowed */
    /* A change of ids may undo it. */
    prctl(PR_SET_DUMPABLE, 0);
}
