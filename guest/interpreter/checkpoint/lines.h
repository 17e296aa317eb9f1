/* The lines of a file in /proc, without memory of an allocator. */
#pragma once

#include "proto/base/base.h"

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
