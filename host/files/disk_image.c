#include "host/files/disk_image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

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
#define INODES_OURS       6u  /* of the directories that are made in it */
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

/* Neither a journal nor copies of the superblock: nobody repairs what does not outlive its session. Tables
 * that are holes in a sparse file need not be written. Nothing comes from the host's mke2fs.conf. */
#define FEATURES                                                                                             \
    "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,large_file,"            \
    "sparse_super2,uninit_bg,64bit"
#define EXTENDED "num_backup_sb=0,lazy_itable_init=1,nodiscard,root_owner=0:0"

static const char *const programs[] = {"/usr/sbin/mke2fs", "/sbin/mke2fs", "/usr/local/sbin/mke2fs"};

/* The first line of what it said. */
static int say_failed(int said, const char *program, Problem *problem)
{
    char text[256];
    ssize_t n = pread(said, text, sizeof(text) - 1, 0);

    text[MAX(n, 0)] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return problem_set(problem, ERR_INTERNAL, "%s cannot create a file system: %s", program,
                       *text ? text : "no message");
}

static int wait_for(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

/* Signals are as in a process of its own: the thread that starts it may take none. */
static int spawn_quietly(const char *program, const char *const argv[], int said, pid_t *ret_pid)
{
    static const char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MKE2FS_CONFIG=/dev/null",
                                              NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int r;

    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
    r = posix_spawn(ret_pid, program, &actions, &attributes, (char *const *)argv, (char *const *)environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -r;
}

static int run(const char *program, const char *const argv[], Problem *problem)
{
    _cleanup_(closep) int said = memfd_create("mke2fs", MFD_CLOEXEC);
    pid_t pid = -1;
    int r = said < 0 ? -errno : spawn_quietly(program, argv, said, &pid);

    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot run %s: %s", program, strerror(-r));
    return wait_for(pid) < 0 ? say_failed(said, program, problem) : 0;
}

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
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
        if (access(programs[i], X_OK) == 0)
            return run(programs[i], argv, problem);
    return problem_set(problem, ERR_INTERNAL, "mke2fs is not installed; install the package e2fsprogs");
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
    char path[64];
    int r = disk_image_set_size(file, size, problem);

    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), file);
    return make_in(path, &layout, problem);
}
