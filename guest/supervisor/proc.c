#include "guest/supervisor/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

ssize_t proc_read(pid_t pid, const char *name, char *to, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;

    ssize_t n = read(fd, to, size - 1);
    if (n < 0)
        return -errno;
    to[n] = '\0';
    return n;
}
