/* Mounting the file system in an image file, by a loop device that goes with the last mount of it. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Whether disks can be made by this process in `state_dir`: makes one, and ends it. Blocks for a moment. 0,
 * or -EPROTO with the problem saying what is missing. */
int disk_check(const char *state_dir, Problem *problem);

/* Mounts the image `name` of `directory` nowhere yet: returns a descriptor of the mount, which nothing has
 * but who has that, or a negative errno. For a worker thread. */
int disk_mount(int directory, const char *name);

/* Makes the directories `names` (NULL-terminated) of the file system `mount` those of `directory` that are
 * called the same, and are empty. 0, or a negative errno: those that were mounted by then stay so. */
int disk_attach(int mount, int directory, const char *const *names);

/* Unmounts all that is mounted on `name` of `directory`, whoever still uses it. Nothing there is no reason to
 * complain. */
void disk_detach(int directory, const char *name);
