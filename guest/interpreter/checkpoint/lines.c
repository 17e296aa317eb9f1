#include "guest/interpreter/checkpoint/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

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
