/* Mounting the file system in an image file, by a loop device that goes with the last mount of it. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Checks that this process can make disks in `state_dir`: makes one, and ends it. Blocks for a moment. 0, or
 * -EPROTO with a problem that names what is missing. */
int disk_check(const char *state_dir, Problem *problem);

/* Mounts an image, open for writing, nowhere yet: returns a descriptor of the mount, which nothing has
 * but who has that, or a negative errno. For a worker thread. */
int disk_mount(int image);

/* A directory of a mounted file system, and the one it is mounted on. */
typedef struct DiskPart {
    const char *inside;
    const char *on;
} DiskPart;

/* Mounts the first `n` directories of the file system `mount` on those of `directory`. 0, or a negative
 * errno: those that were mounted by then stay so. */
#define DISK_PARTS_MAX 4
int disk_attach(int mount, int directory, const DiskPart *parts, size_t n);

/* Unmounts all that is mounted on `name` of `directory`, whoever still uses it. Nothing there is no reason to
 * complain. */
void disk_detach(int directory, const char *name);
