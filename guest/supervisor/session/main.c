/* limpet-guest: process 1 of a session's sandbox. See guest/README.md. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "guest/files/files.h"
#include "guest/supervisor/command_line.h"
#include "guest/supervisor/session/supervisor.h"
#include "proto/base/log.h"

/* None is ignored, here and in all that is started from here: whoever started it may have ignored some. */
static void reset_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
}

/* Nothing from outside ends process 1 by default action; a fault of our own still does. */
static void block_signals(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t all;

    sigfillset(&all);
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        sigdelset(&all, faults[i]);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

/* Process 1 never waits for these pipes: the engine reads them, or nobody does. */
static int silence_standard_streams(void)
{
    const char *log = getenv("LIMPET_GUEST_LOG");
    bool keep_stderr = log && strcmp(log, "1") == 0;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if ((fd != STDERR_FILENO || !keep_stderr) && dup2(null, fd) < 0)
            return -errno;
    if (null > STDERR_FILENO)
        close(null);
    return 0;
}

static int become_supervisor(void)
{
    /* The interpreter may have the same uid: no ptrace, no /proc/PID/mem, no core file. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return -errno;
    /* Orphans become our children, as they do with process 1. */
    if (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -errno;
    umask(022);
    return silence_standard_streams();
}

static int supervise(const CommandLine *command_line)
{
    static Supervisor supervisor;
    _cleanup_(loop_freep) Loop *loop = NULL;
    int r = loop_new(&loop);

    if (r == 0)
        r = supervisor_init(&supervisor, loop, command_line);
    if (r == 0)
        r = loop_run(loop);
    if (loop)
        supervisor_deinit(&supervisor);
    return r;
}

int main(int argc, char **argv)
{
    CommandLine command_line;

    if (argc == 2 && strcmp(argv[1], "files") == 0)
        return files_main();
    reset_signals();
    block_signals();
    int r = command_line_parse(&command_line, argc, argv);
    if (r != 0)
        return r < 0 ? 2 : 0;
    if (chdir(command_line.link) < 0) {
        fprintf(stderr, "limpet-guest: cannot enter %s: %s\n", command_line.link, strerror(errno));
        return 1;
    }
    r = become_supervisor();
    log_setup("limpet-guest", LOG_INFO);
    if (r == 0)
        r = supervise(&command_line);
    if (r < 0)
        log_error("ended by an error", "error=%s", strerror(-r));
    return r < 0 ? 1 : r;
}
