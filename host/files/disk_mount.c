#include "host/files/disk_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <string.h>
#include <sys/mount.h>

#include "host/files/disk_template.h"
#include "proto/limits.h"

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
