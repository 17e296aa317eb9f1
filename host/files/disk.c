#include "host/files/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/files/tree.h"
#include "proto/limits.h"

/* Exit statuses of e2fsck when the file system is well now: bits. */
#define E2FSCK_REPAIRED 3

/* ---- programs of e2fsprogs ---- */

static const char *const directories[] = {"/usr/sbin", "/sbin", "/usr/local/sbin"};

#define PROGRAM_SIZE 64

static bool find_program(char ret[static PROGRAM_SIZE], const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        snprintf(ret, PROGRAM_SIZE, "%s/%s", directories[i], name);
        if (access(ret, X_OK) == 0)
            return true;
    }
    return false;
}

/* The first line of what it said, in which it names itself. */
static int say_failed(int said, const char *failed, Problem *problem)
{
    char text[256];
    ssize_t n = pread(said, text, sizeof(text) - 1, 0);

    text[MAX(n, 0)] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return problem_set(problem, ERR_INTERNAL, "%s: %s", failed, *text ? text : "no message");
}

static int wait_for(pid_t pid, int well)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && (WEXITSTATUS(status) & ~well) == 0 ? 0 : -ECHILD;
}

/* Signals are as in a process of its own: the thread that starts it may take none. */
static int spawn_quietly(const char *program, const char *const argv[], int said, pid_t *ret_pid)
{
    static const char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MKE2FS_CONFIG=/dev/null",
                                              "E2FSCK_CONFIG=/dev/null", NULL};
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
    posix_spawn_file_actions_adddup2(&actions, said, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
    r = posix_spawn(ret_pid, program, &actions, &attributes, (char *const *)argv, (char *const *)environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -r;
}

/* Runs argv[0] and waits. An exit status that has other bits than those of `well` set is a failure: `failed`
 * says of what, and the first line that the program said why. For a worker thread. 0, or -EPROTO with the
 * problem set. */
static int e2fsprogs_run(const char *const argv[], int well, const char *failed, Problem *problem)
{
    char program[PROGRAM_SIZE];
    pid_t pid = -1;

    if (!find_program(program, argv[0]))
        return problem_set(problem, ERR_INTERNAL, "%s is not installed; install the package e2fsprogs",
                           argv[0]);
    _cleanup_(closep) int said = memfd_create(argv[0], MFD_CLOEXEC);
    int r = said < 0 ? -errno : spawn_quietly(program, argv, said, &pid);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot run %s: %s", program, strerror(-r));
    return wait_for(pid, well) < 0 ? say_failed(said, failed, problem) : 0;
}

/* Writes the path by which such a program finds an open file, whatever name that has by now. Returns ret. */
#define E2FSPROGS_PATH_SIZE 64
static const char *e2fsprogs_path(char ret[static E2FSPROGS_PATH_SIZE], int file)
{
    snprintf(ret, E2FSPROGS_PATH_SIZE, "/proc/%d/fd/%d", (int)getpid(), file);
    return ret;
}

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

/* Makes `file` as large as an image of that size is. Below 0, it could not be opened: errno says why. 0, or
 * -EPROTO with the problem set. */
static int disk_image_set_size(int file, DiskSize size, Problem *problem)
{
    DiskLayout layout = disk_layout(size);

    if (file < 0 || ftruncate(file, (off_t)(layout.blocks * DISK_BLOCK)) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot create a file of %" PRIu64 " bytes: %s",
                           layout.blocks * DISK_BLOCK, strerror(errno));
    return 0;
}

/* Gives the empty file `file` an empty file system of that size. For a worker thread: runs mke2fs. 0, or
 * -EPROTO with the problem set. */
static int disk_image_format(int file, DiskSize size, Problem *problem)
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

/* ---- templates ---- */

#define BUFFER_SIZE (64u << 10)
#define SEALS       (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

typedef struct DiskTemplate {
    DiskSize size;
    int file;
    uint64_t used; /* when it was asked for last, counted in such questions; 0: there is none here */
} DiskTemplate;

static DiskTemplate templates[DISK_TEMPLATES_MAX];
static uint64_t questions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- which there are ---- */

/* Returns a descriptor of a new one. */
static int make(DiskSize size, Problem *problem)
{
    _cleanup_(closep) int file = memfd_create("limpet-disk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (file < 0)
        return problem_set(problem, ERR_INTERNAL, "no memory for a disk: %s", strerror(errno));
    r = disk_image_format(file, size, problem);
    if (r < 0)
        return r;
    if (fcntl(file, F_ADD_SEALS, SEALS) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot seal memory: %s", strerror(errno));
    return take_fd(&file);
}

static DiskTemplate *find(DiskSize size)
{
    for (size_t i = 0; i < ARRAY_SIZE(templates); i++)
        if (templates[i].used && templates[i].size.bytes == size.bytes &&
            templates[i].size.files == size.files)
            return &templates[i];
    return NULL;
}

static void forget(DiskTemplate *template)
{
    if (template->used)
        close(template->file);
    *template = (DiskTemplate){0};
}

/* Room for one more. */
static DiskTemplate *make_room(void)
{
    DiskTemplate *oldest = &templates[0];

    for (size_t i = 1; i < ARRAY_SIZE(templates); i++)
        if (templates[i].used < oldest->used)
            oldest = &templates[i];
    forget(oldest);
    return oldest;
}

static int find_or_make(DiskTemplate **ret, DiskSize size, Problem *problem)
{
    DiskTemplate *template = find(size);

    if (!template) {
        int file = make(size, problem);

        if (file < 0)
            return file;
        template = make_room();
        *template = (DiskTemplate){.size = size, .file = file};
    }
    template->used = ++questions;
    *ret = template;
    return 0;
}

/* Returns a descriptor of the caller's own: the template may be forgotten while it is read. Several who ask
 * for one that is not there yet wait for the first of them to make it. */
static int borrow(DiskSize size, Problem *problem)
{
    DiskTemplate *template;
    int r;

    pthread_mutex_lock(&lock);
    r = find_or_make(&template, size, problem);
    if (r == 0) {
        r = fcntl(template->file, F_DUPFD_CLOEXEC, 0);
        if (r < 0)
            problem_set(problem, ERR_INTERNAL, "cannot get a descriptor: %s", strerror(errno));
    }
    pthread_mutex_unlock(&lock);
    return r < 0 ? -EPROTO : r;
}

/* ---- copying ---- */

static int copy_data(int from, int to, off_t start, off_t end)
{
    uint8_t buffer[BUFFER_SIZE];

    while (start < end) {
        ssize_t n = pread(from, buffer, (size_t)MIN(end - start, (off_t)sizeof(buffer)), start);

        if (n > 0)
            n = pwrite(to, buffer, (size_t)n, start);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        start += n;
    }
    return 0;
}

static int copy_all(int from, int to)
{
    off_t start, end, size = lseek(from, 0, SEEK_END);
    int r = size < 0 ? -errno : 0;

    for (off_t at = 0; r == 0 && at < size; at = end) {
        r = extent_next(from, at, size, &start, &end);
        if (r == 0)
            r = copy_data(from, to, start, end);
    }
    return r;
}

static int copy_template(DiskSize size, int file, Problem *problem)
{
    _cleanup_(closep) int template = borrow(size, problem);
    int r;

    if (template <0)
        return template;
    r = copy_all(template, file);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot write the disk: %s", strerror(-r));
    return 0;
}

int disk_template_make(int directory, const char *name, DiskSize size, Problem *problem)
{
    int r;

    unlinkat(directory, name, 0);
    _cleanup_(closep) int file =
        openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = disk_image_set_size(file, size, problem);
    if (r == 0)
        r = copy_template(size, file, problem);
    if (r < 0)
        unlinkat(directory, name, 0);
    return r < 0 ? r : take_fd(&file);
}

/* ---- mounting ---- */

/* Attempts to get a free device before others take it. */
#define ATTEMPTS 256
/* Mounts upon each other, which are ours and those of an engine. */
#define DETACH_MAX 16

/* ---- the device ---- */

/* Returns a descriptor of the device; without it or a mount the device is free again. */
static int try_device(int number, int image, char path[32])
{
    struct loop_config config = {
        .fd = (unsigned)image, .block_size = DISK_BLOCK, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};

    snprintf(path, 32, "/dev/loop%d", number);
    _cleanup_(closep) int device = open(path, O_RDWR | O_CLOEXEC);
    if (device < 0 || ioctl(device, LOOP_CONFIGURE, &config) < 0)
        return -errno;
    return take_fd(&device);
}

static int make_device(int image, char path[32])
{
    _cleanup_(closep) int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int r = control < 0 ? -errno : -EBUSY;

    for (unsigned i = 0; i < ATTEMPTS && r == -EBUSY; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);

        r = number < 0 ? -errno : try_device(number, image, path);
    }
    return r;
}

/* ---- the mount ---- */

/* Blocks freed in the file system are freed in the image, too (discard). Nothing waits for the host's disk
 * (nobarrier): a crash of the host ends the session, and the disk with it. */
static const char *const flags[] = {"discard", "nobarrier", "noinit_itable"};

int disk_mount(int image)
{
    char path[32];
    _cleanup_(closep) int device = make_device(image, path);
    _cleanup_(closep) int context = device < 0 ? -1 : fsopen("ext4", FSOPEN_CLOEXEC);
    int mount;

    if (device < 0)
        return device;
    if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "source", path, 0) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (fsconfig(context, FSCONFIG_SET_FLAG, flags[i], NULL, 0) < 0)
            return -errno;
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    mount = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return mount < 0 ? -errno : mount;
}

#define TRIAL "disk.trial"

int disk_check(const char *state_dir, Problem *problem)
{
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    DiskSize size = {DISK_MINIMUM, FILES_MINIMUM};
    int mount;

    if (geteuid() != 0)
        return problem_set(problem, ERR_ENGINE_ERROR, "mounting file systems needs root");
    if (state < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(errno));
    _cleanup_(closep) int image = disk_template_make(state, TRIAL, size, problem);
    if (image < 0)
        return image;
    mount = disk_mount(image);
    unlinkat(state, TRIAL, 0);
    if (mount < 0)
        return problem_set(problem, ERR_ENGINE_ERROR, "cannot mount an ext4 file system on a loop device: %s",
                           strerror(-mount));
    close(mount);
    return 0;
}

/* A part of a mount that is nowhere cannot be had before Linux 6.15: for a moment it is on the first one. */
static int open_parts(int mount, int directory, const DiskPart *parts, size_t n, int *trees)
{
    char path[PATH_MAX];
    int r = move_mount(mount, "", directory, parts[0].on, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", parts[0].on, parts[i].inside);
        trees[i] = open_tree(directory, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        r = trees[i] < 0 ? -errno : 0;
    }
    disk_detach(directory, parts[0].on);
    return r;
}

int disk_attach(int mount, int directory, const DiskPart *parts, size_t n)
{
    int trees[DISK_PARTS_MAX] = {-1, -1, -1, -1};
    int r = n <= DISK_PARTS_MAX ? open_parts(mount, directory, parts, n, trees) : -E2BIG;

    for (size_t i = 0; i < MIN(n, DISK_PARTS_MAX); i++) {
        if (r == 0 && move_mount(trees[i], "", directory, parts[i].on, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            r = -errno;
        closep(&trees[i]);
    }
    return r;
}

void disk_detach(int directory, const char *name)
{
    char path[PATH_MAX];
    int r = 0;

    snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", directory, name);
    for (unsigned i = 0; r == 0 && i < DETACH_MAX; i++)
        r = umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
}
