/* Removing a tree that hostile code made: of any depth, width and mode. */
#pragma once

#include "proto/base/base.h"

/* Removes `name` (one component) below dirfd and everything in it, without following links and without
 * leaving its filesystem. Memory, descriptors and stack do not grow with the tree. Goes on after an error
 * and returns the first one as a negative errno; 0 when nothing is left, or nothing was there.
 * `ret_count`, where not NULL, is set even on failure: how many files and directories were removed. */
int remove_tree(int dirfd, const char *name, uint64_t *ret_count);

/* The same for a path whose parent directory is ours to trust. */
int remove_path(const char *path);
