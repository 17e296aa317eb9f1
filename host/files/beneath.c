#include "host/files/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* A rename anywhere in the system can make one attempt fail with EAGAIN; this many in a row are an attack. */
#define ATTEMPTS 128

static int openat2_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

bool beneath_supported(void)
{
    int fd = openat2_beneath(AT_FDCWD, ".", O_PATH, 0);

    closep(&fd);
    return fd >= 0;
}

int beneath_open(int dirfd, const char *path, int flags, mode_t mode)
{
    int fd = -EAGAIN;

    for (unsigned i = 0; i < ATTEMPTS && (fd == -EAGAIN || fd == -EINTR); i++)
        fd = openat2_beneath(dirfd, path, flags, mode);
    return fd;
}

int beneath_find(int dirfd, const char *path, struct stat *ret_stat)
{
    _cleanup_(closep) int handle = beneath_open(dirfd, path, O_PATH, 0);
    struct stat st;

    if (handle < 0)
        return handle;
    if (fstat(handle, &st) < 0)
        return -errno;
    *ret_stat = st;
    return take_fd(&handle);
}

const char *fd_path(char buffer[FD_PATH_SIZE], int fd)
{
    snprintf(buffer, FD_PATH_SIZE, "/proc/self/fd/%d", fd);
    return buffer;
}

int beneath_read(int handle)
{
    char path[FD_PATH_SIZE];
    int fd = open(fd_path(path, handle), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int beneath_open_regular(int dirfd, const char *path, struct stat *ret_stat)
{
    struct stat st = {0};
    _cleanup_(closep) int handle = beneath_find(dirfd, path, &st);

    if (handle < 0)
        return handle;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    if (!S_ISREG(st.st_mode))
        return -ENXIO;

    int fd = beneath_read(handle);
    if (fd >= 0)
        *ret_stat = st;
    return fd;
}

int beneath_open_list(int dirfd, const char *path, DIR **ret)
{
    _cleanup_(closep) int fd = beneath_open(dirfd, path, O_RDONLY | O_DIRECTORY, 0);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream)
        return fd < 0 ? fd : -errno;
    take_fd(&fd);
    *ret = stream;
    return 0;
}

/* Gives a directory we have just made its mode and owner. Someone may have put another one in its place,
 * but only one of their own, and those are left alone. */
static int settle_directory(int handle, mode_t mode, uid_t uid, gid_t gid)
{
    char path[FD_PATH_SIZE];
    struct stat st;

    if (fstat(handle, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid())
        return 0;
    if (chmod(fd_path(path, handle), mode) < 0)
        return -errno;
    if (fchownat(handle, "", uid, gid, AT_EMPTY_PATH) < 0 && errno != EPERM)
        return -errno;
    return 0;
}

static int enter_directory(int parent, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
    bool made = mkdirat(parent, name, 0700) == 0;

    if (!made && errno != EEXIST)
        return -errno;

    _cleanup_(closep) int handle = beneath_open(parent, name, O_PATH | O_DIRECTORY, 0);
    if (handle < 0)
        return handle;
    int r = made ? settle_directory(handle, mode, uid, gid) : 0;
    return r < 0 ? r : take_fd(&handle);
}

int beneath_mkdirs(int dirfd, const char *path, mode_t mode, uid_t uid, gid_t gid)
{
    _cleanup_(closep) int current = beneath_open(dirfd, ".", O_PATH | O_DIRECTORY, 0);

    while (current >= 0 && *path) {
        char name[NAME_MAX + 1];
        size_t n = strcspn(path, "/");

        if (n > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, path, n);
        name[n] = '\0';
        path += n + strspn(path + n, "/");
        if (n == 0)
            continue;

        int next = enter_directory(current, name, mode, uid, gid);
        close_fd(&current);
        current = next;
    }
    return take_fd(&current);
}
