/* Starting the files process: this very program, once more, without any power. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "guest/channel.h"
#include "guest/supervisor/files/files.h"
#include "guest/supervisor/process/child.h"

/* Nothing to read, nowhere to write, and the channel. */
static int arrange(int channel)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    channel = fcntl(channel, F_DUPFD_CLOEXEC, CHANNEL_FD + 1);
    if (null < 0 || channel < 0)
        return -errno;
    for (int fd = 0; fd < CHANNEL_FD; fd++)
        if (null != fd && dup2(null, fd) < 0)
            return -errno;
    if (dup2(channel, CHANNEL_FD) < 0 || close_range(CHANNEL_FD + 1, ~0U, 0) < 0)
        return -errno;
    return 0;
}

static _Noreturn void run(const CommandLine *command_line, const char *program, int channel, pid_t parent)
{
    char *const arguments[] = {(char *)program, (char *)"files", NULL};
    char *const environment[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL};

    if (arrange(channel) < 0)
        _exit(127);
    setsid(); /* a new child leads no group: this cannot fail */
    umask(022);
    if (!command_line->same_user && child_drop_powers(command_line->uid, command_line->uid, 0) < 0)
        _exit(127);
    /* After the change of ids, which clears the setting. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(command_line->directory) < 0)
        _exit(127);
    child_unblock_signals();
    execve(program, arguments, environment);
    _exit(127);
}

pid_t files_process_spawn(const CommandLine *command_line, int channel)
{
    char program[LIMIT_PATH];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    pid_t parent = getpid(), pid;

    if (n < 0)
        return -errno;
    program[n] = '\0';
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        run(command_line, program, channel, parent);
    return pid;
}
