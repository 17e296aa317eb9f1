#include "host/daemon/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/log.h"

#define LOG_LIMIT ((size_t)1 << 20) /* bytes of limpetd.log, and of the older one beside it */

/* Reads the child's report: empty means that it serves. */
static int wait_for_report(int fd)
{
    char text[PROBLEM_TEXT_MAX + 64];
    size_t size = 0;
    ssize_t n;

    while ((n = read(fd, text + size, sizeof(text) - 1 - size)) > 0 || (n < 0 && errno == EINTR))
        size += n > 0 ? (size_t)n : 0;
    text[size] = '\0';
    if (strcmp(text, "ready") == 0)
        return 0;
    fprintf(stderr, "limpetd: %s\n", size ? text : "the controller ended while starting; see its log");
    return 1;
}

/* Nothing of the caller's is kept: session, directory, descriptors. */
static int become_daemon(const Paths *paths)
{
    char log[PATH_MAX];
    int null;

    snprintf(log, sizeof(log), "%s/limpetd.log", paths->state_dir);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || setsid() < 0 || chdir("/") < 0)
        return -errno;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (log_to_file(log, LOG_LIMIT) < 0)
        dup2(null, STDERR_FILENO);
    close(null); /* no standard descriptor: main() has seen to it that those are taken */
    return 0;
}

int detach(const Paths *paths, int *ret_report)
{
    int pipe_fds[2];
    pid_t pid;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return 1;
    pid = fork();
    if (pid < 0)
        return 1;
    if (pid > 0) {
        int status;
        close(pipe_fds[1]);
        status = wait_for_report(pipe_fds[0]);
        close(pipe_fds[0]);
        return status;
    }
    close(pipe_fds[0]);
    *ret_report = pipe_fds[1];
    if (become_daemon(paths) < 0) {
        detach_report(ret_report, "cannot run in the background");
        _exit(1);
    }
    return -1;
}

void detach_report(int *report, const char *text)
{
    const char *words = text ? text : "ready";

    if (*report < 0)
        return;
    if (write(*report, words, strlen(words)) < 0)
        errno = 0; /* the asker is gone; the controller serves all the same */
    close_fd(report);
}
