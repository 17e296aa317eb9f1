/* Image files with an ext4 file system in them: what a disk (disk_mount.h) is made of. */
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

/* Makes `file` as large as an image of that size is. Below 0, it could not be opened: errno says why. 0, or
 * -EPROTO with the problem set. */
int disk_image_set_size(int file, DiskSize size, Problem *problem);

/* Gives the empty file `file` an empty file system of that size. For a worker thread: runs mke2fs. 0, or
 * -EPROTO with the problem set. */
int disk_image_format(int file, DiskSize size, Problem *problem);

/* Checks the file system in an image that is mounted nowhere, and repairs what loses nothing. As the last. */
int disk_image_check(int file, Problem *problem);
