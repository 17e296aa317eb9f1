/* Destination: where below a directory of ours the copy of a path of theirs goes. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "host/files/names.h"

/* A file that comes where an earlier one's directory is, or the reverse, gets this behind its name, which no
 * escaped name contains: nothing that was published is removed to make room. */
#define OTHER_KIND "%~"

typedef struct Destination {
    int directory; /* handle */
    char name[NAME_ESCAPED_SIZE + sizeof(OTHER_KIND)];
    char path[PATH_MAX]; /* on the host */
    size_t length;
    unsigned made; /* directories, for it */
} Destination;

/* The place for the relative `path` below `target`, whose host path is `target_path`; makes the directories
 * it needs. To be deinitialised after failure as well. -ENAMETOOLONG when no host path can name it. */
int destination_init(Destination *destination, int target, const char *target_path, const char *path);
/* Finds the regular file at that place. False when there is none, or it cannot be found. */
bool destination_find(int target, const char *path, struct stat *ret_stat);
void destination_deinit(Destination *destination);
