#include "guest/interpreter/checkpoint/no_malloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (MAX(bytes, 1u) + page - 1) / page * page;
}

void *pages_room(void *items, size_t n, size_t size)
{
    size_t before = whole(n * size), after = whole((n + 1) * size);
    void *room = items;

    if (!items)
        room = mmap(NULL, after, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else if (after != before)
        room = mremap(items, before, after, MREMAP_MAYMOVE);
    return room == MAP_FAILED ? NULL : room;
}

void pages_free(void *items, size_t n, size_t size)
{
    if (items)
        munmap(items, whole(n * size));
}

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

int lines_open(Lines *ret, const char *path)
{
    ret->fd = open(path, O_RDONLY | O_CLOEXEC);
    ret->start = ret->end = 0;
    return ret->fd < 0 ? -errno : 0;
}

void lines_close(Lines *lines)
{
    close_fd(&lines->fd);
}

/* Moves what is left to the front. False at the end, and for a line that is too long. */
static bool fill(Lines *lines)
{
    size_t left = lines->end - lines->start;

    memmove(lines->space, lines->space + lines->start, left);
    lines->start = 0;
    lines->end = left;

    ssize_t n = lines->fd < 0 ? 0 : read(lines->fd, lines->space + left, sizeof(lines->space) - left);
    lines->end += (size_t)MAX(n, 0);
    return n > 0;
}

const char *lines_next(Lines *lines)
{
    char *line, *end;

    while (!(end = memchr(lines->space + lines->start, '\n', lines->end - lines->start))) {
        if (!fill(lines))
            return NULL;
    }
    line = lines->space + lines->start;
    *end = '\0';
    lines->start = (size_t)(end + 1 - lines->space);
    return line;
}
