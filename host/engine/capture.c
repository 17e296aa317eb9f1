#include "host/engine/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "host/engine/spawn.h"
#include "proto/base/clock.h"

#define READ_SIZE 4096

/* Reads to the end of the pipe or until the deadline. */
static int drain(int fd, uint64_t deadline, Buf *out)
{
    for (;;) {
        uint64_t now = clock_now();
        struct pollfd waited = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (now >= deadline)
            return -ETIMEDOUT;
        if (poll(&waited, 1, (int)((deadline - now) / NSEC_PER_MSEC) + 1) <= 0)
            continue;
        n = buf_read_fd(out, fd, READ_SIZE);
        if (n == 0 || (n < 0 && n != -EINTR && n != -EAGAIN))
            return (int)n;
    }
}

int capture_program(const char *const argv[], double seconds, Buf *out)
{
    uint64_t deadline = clock_now() + clock_from_seconds(seconds);
    int ends[2], r, status;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    r = spawn(argv, ends[1], &pid);
    close(ends[1]);
    if (r == 0) {
        r = drain(ends[0], deadline, out);
        if (r < 0)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (r == 0)
            r = WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
    }
    close(ends[0]);
    return r;
}

int capture_file(const char *path, size_t limit, char **ret)
{
    int fd _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC);
    char *text _cleanup_(freep) = NULL;
    size_t size = 0;
    ssize_t n = 1;

    if (fd < 0)
        return -errno;
    text = malloc(limit + 1);
    if (!text)
        return -ENOMEM;
    while (size < limit && n > 0) {
        n = read(fd, text + size, limit - size);
        if (n < 0 && errno != EINTR)
            return -errno;
        size += n > 0 ? (size_t)n : 0;
        n = n < 0 ? 1 : n;
    }
    text[size] = '\0';
    *ret = take(text);
    return 0;
}
