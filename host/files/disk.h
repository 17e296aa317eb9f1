/* Disks: image files with an ext4 file system in them, and mounting those, by a loop device that goes with
 * the last mount of it.
 *
 * A new disk is a copy of a template, an empty file system: mke2fs takes milliseconds, the copy a tenth of
 * one, because all that is written of such a file system is a few dozen KiB. Templates are made when a disk
 * of their size is first asked for, and live in sealed memory of this process: on no disk, under no name. So
 * there is nothing to be found broken, nothing that anybody else could change, and nothing to remove, however
 * the process ends. Copies differ in nothing, not in their UUID either, by which nothing here looks for a
 * file system. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Capacity of a disk, beyond what the file system needs for itself. */
typedef struct DiskSize {
    uint64_t bytes;
    uint64_t files; /* inodes: directories, links and all else that has a name count, too */
} DiskSize;

/* Layout of a file system from which `size` can be had. */
typedef struct DiskLayout {
    uint64_t blocks;   /* of DISK_BLOCK bytes */
    uint64_t reserved; /* of them, for root: what the host itself does in a full file system */
    uint64_t inodes;
    uint64_t group_blocks; /* in a block group, the last one excepted */
} DiskLayout;

#define DISK_BLOCK 4096u

DiskLayout disk_layout(DiskSize size);

/* Checks the file system in an image that is mounted nowhere, and repairs what loses nothing. As the last. */
int disk_image_check(int file, Problem *problem);

/* Sizes that have a template. One more takes the place of the size that was asked for least recently. */
#define DISK_TEMPLATES_MAX 8u

/* Makes the file `name` in `directory`, sparse, with an empty file system of that size. What has that name is
 * replaced. For worker threads, any number at once: may run mke2fs. A descriptor of the file, by which it is
 * to be mounted, as others may write to the directory; or -EPROTO with the problem set and no such file. */
int disk_template_make(int directory, const char *name, DiskSize size, Problem *problem);

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
