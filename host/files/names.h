/* Host file names for names that hostile code chose.
 *
 * A name made of letters, digits and "_+=,@.-" that does not begin with '.' or '-' stays as it is. Every
 * other byte becomes %XX. A result that would be too long for a file system is cut and gets "%-" and a hash
 * of the whole name, with the extension kept. Different names always give different results, and no result
 * begins with '.' or contains "%~", which are free for the caller's own use. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "proto/base/base.h"

#define NAME_ESCAPED_MAX  250u /* room to put a short suffix behind */
#define NAME_ESCAPED_SIZE (NAME_ESCAPED_MAX + 1)

/* `name` is one component: not empty, no '/'. 0 or -ENOMEM. */
int name_escape(char ret[NAME_ESCAPED_SIZE], const char *name);

/* `path` for people: printable ASCII, the rest as %XX, cut with "..." to fit `size` (at least 8). */
const char *path_display(char *ret, size_t size, const char *path);

/* A file that comes where an earlier one's directory is, or the reverse, gets this behind its name, which no
 * escaped name contains: nothing that was published is removed to make room. */
#define OTHER_KIND "%~"

/* Destination: where below a directory of ours the copy of a path of theirs goes. */
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
