#include "clients/c/cli/code.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proto/limits.h"

int code_complain(const char *path, int error)
{
    fprintf(stderr, "limpet: %s: %s\n", path, strerror(error));
    return EXIT_USAGE;
}

int code_read(const char *file, Buf *ret)
{
    _cleanup_(closep) int opened = -1;
    int fd = STDIN_FILENO;
    ssize_t n;

    if (strcmp(file, "-") != 0)
        fd = opened = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return code_complain(file, errno);
    do
        n = buf_read_fd(ret, fd, LIMIT_CODE + 1 - ret->size);
    while (n == -EINTR || (n > 0 && ret->size <= LIMIT_CODE));
    return n < 0 ? code_complain(file, (int)-n) : 0;
}
