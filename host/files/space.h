/* Space: what files take on the disk. */
#pragma once

#include "proto/base/base.h"

typedef struct Space {
    uint64_t bytes; /* allocated */
    uint64_t files; /* directories and links included */
} Space;

/* Adds what `name` of `dirfd` takes, with all below it when it is a directory. Follows no link and leaves no
 * filesystem; what cannot be looked at does not count. For a worker thread. */
void space_add(Space *space, int dirfd, const char *name);
