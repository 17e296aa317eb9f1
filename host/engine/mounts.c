#include "host/engine/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>

int mounts_restrict(const char *directory)
{
    struct mount_attr flags = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    int tree _cleanup_(closep) = open_tree(AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &flags, sizeof(flags)) < 0 ||
        move_mount(tree, "", AT_FDCWD, directory, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

void mounts_release(const char *directory)
{
    umount2(directory, MNT_DETACH | UMOUNT_NOFOLLOW);
}
