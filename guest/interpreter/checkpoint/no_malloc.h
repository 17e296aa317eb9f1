/* Arrays and files of /proc without memory of an allocator, whose locks may be held by threads that rest. */
#pragma once

#include "proto/base/base.h"

/* Arrays in pages of their own: room for one more than `n` items of `size` bytes; the array may move. NULL
 * when there is no memory: it is as it was then. */
void *pages_room(void *items, size_t n, size_t size);

void pages_free(void *items, size_t n, size_t size);

/* The numbers that a directory of /proc lists, of threads or descriptors. */

/* Calls `found` with each, until it returns a negative value, which is returned then. 0 or a negative errno.
 */
int numbers_each(const char *directory, int (*found)(void *userdata, int number), void *userdata);

/* The lines of a file in /proc. */
typedef struct Lines {
    int fd;
    size_t start, end;
    char space[4608]; /* for a line with a path */
} Lines;

/* 0 or a negative errno. */
int lines_open(Lines *ret, const char *path);
void lines_close(Lines *lines);

/* The next line, without its end, or NULL. Valid until the next call. */
const char *lines_next(Lines *lines);
