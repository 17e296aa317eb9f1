#include "guest/supervisor/command/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "guest/supervisor/process/child.h"

#define EXIT_CANNOT  126
#define EXIT_MISSING 127

static _Noreturn void fail(const char *what, int error, int exit_code)
{
    dprintf(STDERR_FILENO, "limpet: %s: %s\n", what, strerror(error));
    _exit(exit_code);
}

/* Moves the descriptors to 0..2 and closes all others. */
static int arrange(const int fds[3])
{
    int source[3];

    /* The sources move out of the way first, so that no dup2 below hits one. */
    for (int i = 0; i < 3; i++) {
        source[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (source[i] < 0)
            return -errno;
    }
    for (int i = 0; i < 3; i++)
        if (dup2(source[i], i) < 0)
            return -errno;
    return close_range(3, ~0U, 0) < 0 ? -errno : 0;
}

/* The kernel takes it before the interpreter when memory runs out: variables live there. */
static void volunteer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (write(fd, "1000", 4) < 0)
            errno = 0; /* somebody who may not say so goes without */
        close(fd);
    }
}

static _Noreturn void run(const ProgramPlan *plan, pid_t parent)
{
    const CommandLine *command_line = plan->command_line;
    uid_t uid = plan->uid ? plan->uid : command_line->uid;
    int r = arrange(plan->fds);

    if (r < 0)
        _exit(EXIT_CANNOT);
    setsid(); /* a new child leads no group: this cannot fail */
    if (plan->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
        fail("cannot have the terminal", errno, EXIT_CANNOT);
    volunteer();
    umask(022);
    r = command_line->same_user ? 0 : child_drop_powers(uid, command_line->uid, plan->mark);
    if (r < 0)
        fail("cannot give up the supervisor's powers", -r, EXIT_CANNOT);
    /* After the change of ids, which clears the setting. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CANNOT);
    if (chdir(plan->directory) < 0)
        fail(plan->directory, errno, EXIT_CANNOT);
    child_unblock_signals();
    environ = plan->environment;
    execvp(plan->argv[0], plan->argv);
    fail(plan->argv[0], errno, errno == ENOENT ? EXIT_MISSING : EXIT_CANNOT);
}

pid_t spawn_program(const ProgramPlan *plan)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        return -errno;
    if (pid == 0)
        run(plan, parent);
    return pid;
}
