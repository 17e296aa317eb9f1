#include "guest/interpreter/checkpoint/numbers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

static int each_of(const char *entries, size_t size, int except, int (*found)(void *userdata, int number),
                   void *userdata)
{
    int r = 0;

    for (size_t at = 0; at < size && r >= 0;) {
        const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
        bool is_number = entry->d_name[0] >= '0' && entry->d_name[0] <= '9';

        at += entry->d_reclen;
        if (is_number && atoi(entry->d_name) != except)
            r = found(userdata, atoi(entry->d_name));
    }
    return MIN(r, 0);
}

int numbers_each(const char *directory, int (*found)(void *userdata, int number), void *userdata)
{
    _Alignas(struct dirent64) char entries[4096];
    _cleanup_(closep) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t n;
    int r = 0;

    if (fd < 0)
        return -errno;
    while (r == 0 && (n = getdents64(fd, entries, sizeof(entries))) != 0)
        r = n < 0 ? -errno : each_of(entries, (size_t)n, fd, found, userdata);
    return r;
}
