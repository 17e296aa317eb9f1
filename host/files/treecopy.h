/* Copying a whole tree that hostile code made and may be changing right now. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Copies everything in the directory `from`, except the name `skip` in it (NULL: none), into the directory
 * `to`. Regular files share their extents with the original where the filesystem can, and are copied
 * otherwise; holes stay holes, symbolic links stay what they are, everything else is left out. Modes, owners
 * and times are kept; where an owner cannot be, everybody may do what the owner could. setuid and setgid are
 * dropped. Directories that are in `to` already stay, with what is in them; other files make way.
 *
 * What the copy takes (each name counts as a block, shared extents do not count) goes to ret_bytes, and may
 * be at most `budget`: TooLarge beyond, and where the filesystem has no room. Negative with the problem set
 * when something could not be copied; what vanished meanwhile is no reason. What has been copied by then is
 * left to the caller to remove. */
int treecopy(int from, int to, const char *skip, uint64_t budget, uint64_t *ret_bytes, Problem *problem);
