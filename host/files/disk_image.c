#include "host/files/disk_image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/files/e2fsprogs.h"

/* ---- the layout ---- */

/* Sizes of ext4 with blocks of 4 KiB. */
#define INODE_SIZE        256u
#define INODES_PER_BLOCK  (DISK_BLOCK / INODE_SIZE)
#define GROUP_BLOCKS_MAX  (8u * DISK_BLOCK) /* one block of bits says which are free */
#define GROUP_BLOCKS_MIN  256u
#define GROUP_INODES_MAX  (8u * DISK_BLOCK)
#define GROUP_BITMAPS     2u
#define DESCRIPTOR_SIZE   64u
#define INODES_RESERVED   11u /* of ext4, lost+found included */
#define INODES_OURS       9u  /* of the directories that are made in it */
#define BLOCKS_OURS       32u /* superblock, lost+found and ours */
#define RESERVED_SHARE    64u /* of what is wanted */
#define RESERVED_MIN      64u
#define HELD_BACK_PERCENT 2u /* by the kernel, for its own needs in a full file system */
#define HELD_BACK_MAX     4096u

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Blocks of the file system itself when it has `groups`. */
static uint64_t own_blocks(uint64_t blocks, uint64_t inodes, uint64_t groups)
{
    uint64_t tables = divide_up(divide_up(inodes, groups), INODES_PER_BLOCK) * groups;

    return tables + GROUP_BITMAPS * groups + divide_up(DESCRIPTOR_SIZE * groups, DISK_BLOCK) +
           MIN(blocks * HELD_BACK_PERCENT / 100, HELD_BACK_MAX) + BLOCKS_OURS;
}

DiskLayout disk_layout(DiskSize size)
{
    uint64_t wanted = divide_up(size.bytes, DISK_BLOCK), inodes = size.files + INODES_RESERVED + INODES_OURS;
    uint64_t blocks = wanted, groups, needed = divide_up(inodes, GROUP_INODES_MAX);
    uint64_t reserved = MAX(wanted / RESERVED_SHARE, RESERVED_MIN);

    /* Twice, because what it needs for itself needs a little, too. */
    for (int i = 0; i < 2; i++) {
        groups = MAX(divide_up(blocks, GROUP_BLOCKS_MAX), needed);
        blocks = wanted + reserved + own_blocks(blocks, inodes, groups);
    }
    return (DiskLayout){
        .blocks = blocks,
        .reserved = reserved,
        .inodes = inodes,
        .group_blocks = MAX(MIN(blocks / needed / 8 * 8, GROUP_BLOCKS_MAX), GROUP_BLOCKS_MIN),
    };
}

/* ---- mke2fs ---- */

/* Neither a journal nor copies of the superblock: what outlives its session, or the machine, is synced
 * before, and checked after. Tables that are holes in a sparse file need not be written. Nothing comes from
 * the host's mke2fs.conf. */
#define FEATURES                                                                                             \
    "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,large_file,"            \
    "sparse_super2,uninit_bg,64bit"
#define EXTENDED "num_backup_sb=0,lazy_itable_init=1,nodiscard,root_owner=0:0"

static int make_in(const char *path, const DiskLayout *layout, Problem *problem)
{
    char inodes[24], group[24], blocks[24], reserved[24];
    const char *argv[] = {"mke2fs", "-q", "-F",     "-t", "ext4",   "-b", "4096",   "-I",
                          "256",    "-m", reserved, "-O", FEATURES, "-E", EXTENDED, "-N",
                          inodes,   "-g", group,    path, blocks,   NULL};

    snprintf(inodes, sizeof(inodes), "%" PRIu64, layout->inodes);
    snprintf(group, sizeof(group), "%" PRIu64, layout->group_blocks);
    snprintf(blocks, sizeof(blocks), "%" PRIu64, layout->blocks);
    snprintf(reserved, sizeof(reserved), "%.9f", 100.0 * (double)layout->reserved / (double)layout->blocks);
    return e2fsprogs_run(argv, 0, "cannot create a file system", problem);
}

int disk_image_set_size(int file, DiskSize size, Problem *problem)
{
    DiskLayout layout = disk_layout(size);

    if (file < 0 || ftruncate(file, (off_t)(layout.blocks * DISK_BLOCK)) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot create a file of %" PRIu64 " bytes: %s",
                           layout.blocks * DISK_BLOCK, strerror(errno));
    return 0;
}

int disk_image_format(int file, DiskSize size, Problem *problem)
{
    DiskLayout layout = disk_layout(size);
    char path[E2FSPROGS_PATH_SIZE];
    int r = disk_image_set_size(file, size, problem);

    if (r < 0)
        return r;
    return make_in(e2fsprogs_path(path, file), &layout, problem);
}

/* ---- e2fsck ---- */

int disk_image_check(int file, Problem *problem)
{
    char path[E2FSPROGS_PATH_SIZE];
    const char *argv[] = {"e2fsck", "-p", e2fsprogs_path(path, file), NULL};

    return e2fsprogs_run(argv, E2FSCK_REPAIRED, "the disk of the session is damaged", problem);
}
