#include "proto/base/fdio.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

int write_all(int fd, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;

    while (size > 0) {
        ssize_t n = write(fd, from, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        from += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t read_whole(int fd, void *to, size_t size)
{
    size_t used = 0;

    while (used < size) {
        ssize_t n = read(fd, (uint8_t *)to + used, size - used);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}
