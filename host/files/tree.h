/* Files and trees that hostile code made and may be changing right now: copied, removed. A tree to be removed
 * may be of any depth, width and mode. */
#pragma once

#include <sys/types.h>

#include "host/files/sha256.h"
#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Finds the next run of data at or after `at` in a file of `size` bytes: its start and its end, both `size`
 * where none is left. A filesystem that cannot tell has no holes. 0 or a negative errno. */
int extent_next(int fd, off_t at, off_t size, off_t *ret_start, off_t *ret_end);

typedef struct Copier {
    uint8_t *buffer;
    Sha256 sha;
    bool no_clone; /* the target's filesystem cannot share extents */
} Copier;

int copier_init(Copier *copier); /* 0 or -ENOMEM */
void copier_deinit(Copier *copier);

/* Copies `size` bytes of `from`, which is what its size was, to the empty file `to`; holes stay holes. The
 * digest is of the bytes that were written. 0; -ESTALE when the file turned out shorter; or another
 * negative errno. A change that leaves the size alone is for the caller to notice. */
int copier_copy(Copier *copier, int from, int to, off_t size, uint8_t ret_sha256[SHA256_SIZE]);

/* Copies everything in the directory `from`, except the name `skip` in it (NULL: none), into the directory
 * `to`. Regular files share their extents with the original where the filesystem can, and are copied
 * otherwise; holes stay holes, symbolic links stay what they are, everything else is left out. Modes, owners
 * and times are kept; where an owner cannot be, everybody may do what the owner could. setuid and setgid are
 * dropped. Directories that are in `to` already stay, with what is in them; other files make way.
 *
 * What the copy takes (each name counts as a block, shared extents do not count) goes to ret_bytes, and may
 * be at most `budget`: TooLarge beyond, and where the filesystem has no room. A tree that is too large from
 * the start is refused before a file is copied. Negative with the problem set when something could not be
 * copied; what vanished meanwhile is no reason. What has been copied by then is left to the caller to remove.
 */
int treecopy(int from, int to, const char *skip, uint64_t budget, uint64_t *ret_bytes, Problem *problem);

/* Removes `name` (one component) below dirfd and everything in it, without following links and without
 * leaving its filesystem. Memory, descriptors and stack do not grow with the tree. Goes on after an error
 * and returns the first one as a negative errno; 0 when nothing is left, or nothing was there.
 * `ret_count`, where not NULL, is set even on failure: how many files and directories were removed. */
int remove_tree(int dirfd, const char *name, uint64_t *ret_count);

/* The same for a path whose parent directory is ours to trust. */
int remove_path(const char *path);
