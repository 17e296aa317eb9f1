#include "host/files/treecopy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/remove.h"

/* Directories within each other: each needs two descriptors meanwhile. */
#define DEPTH_MAX 64u
#define BLOCK     4096u
#define CHUNK     (1u << 20)

typedef struct TreeCopy {
    uint64_t budget;
    uint64_t bytes;
    bool no_clone; /* the filesystem cannot share extents */
    Problem *problem;
} TreeCopy;

static int copy_contents(TreeCopy *copy, int from, int to, const char *skip, unsigned depth);

static int charge(TreeCopy *copy, uint64_t bytes)
{
    if (bytes > copy->budget - copy->bytes)
        return problem_set(
            copy->problem, ERR_TOO_LARGE,
            "the copy of /session exceeds the %llu bytes left for copies (option files_budget); "
            "remove files, or drop checkpoints with files",
            (unsigned long long)copy->budget);
    copy->bytes += bytes;
    return 0;
}

static bool vanished(int error)
{
    return error == -ENOENT || error == -ENOTDIR || error == -ELOOP || error == -ESTALE;
}

static int failed(TreeCopy *copy, const char *name, int error)
{
    if (error == -EPROTO)
        return error;
    if (error == -ENOSPC || error == -EDQUOT)
        return problem_set(copy->problem, ERR_TOO_LARGE, "no room for the copy of '%s'", name);
    return problem_set(copy->problem, ERR_INTERNAL, "cannot copy '%s' of /session: %s", name,
                       strerror(-error));
}

/* Gives a copy the owner, mode and times of its original. Setting the owner may clear mode bits. */
static int settle(int fd, const struct stat *st)
{
    struct timespec times[2] = {st->st_atim, st->st_mtim};
    mode_t mode = st->st_mode & 01777;

    if (fchown(fd, st->st_uid, st->st_gid) < 0)
        mode |= (mode & 0700) >> 3 | (mode & 0700) >> 6;
    if (fchmod(fd, mode) < 0 || futimens(fd, times) < 0)
        return -errno;
    return 0;
}

/* Copies [start, end). Whatever shrinks meanwhile ends earlier. */
static int copy_extent(TreeCopy *copy, int from, int to, off_t start, off_t end)
{
    int r = 0;

    if (lseek(to, start, SEEK_SET) < 0)
        return -errno;
    while (r == 0 && start < end) {
        size_t n = (size_t)MIN(end - start, (off_t)CHUNK);
        ssize_t done;

        r = charge(copy, n);
        if (r < 0)
            return r;
        done = sendfile(to, from, &start, n);
        if (done < 0 && errno != EINTR)
            r = -errno;
        if (done == 0)
            break;
        copy->bytes -= n - (done > 0 ? (size_t)done : 0);
    }
    return r;
}

static int copy_data(TreeCopy *copy, int from, int to, off_t size)
{
    off_t at = 0;
    int r = 0;

    if (!copy->no_clone && ioctl(to, FICLONE, from) == 0)
        return ftruncate(to, size) < 0 ? -errno : 0;
    copy->no_clone = true;
    while (r == 0 && at < size) {
        off_t start = lseek(from, at, SEEK_DATA), end;

        if (start < 0 && errno == ENXIO)
            break;
        start = start < 0 ? at : start; /* a filesystem that cannot say has no holes */
        end = lseek(from, start, SEEK_HOLE);
        end = end > start ? MIN(end, size) : size;
        if (start < end)
            r = copy_extent(copy, from, to, start, end);
        at = end;
    }
    return r == 0 && ftruncate(to, size) < 0 ? -errno : r;
}

static int copy_regular(TreeCopy *copy, int handle, const struct stat *st, int to, const char *name)
{
    _cleanup_(closep) int original = beneath_read(handle);
    _cleanup_(closep) int new =
        original < 0 ? original : openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r;

    if (original < 0)
        return original;
    if (new < 0)
        return -errno;
    r = copy_data(copy, original, new, st->st_size);
    return r < 0 ? r : settle(new, st);
}

static int copy_symlink(int handle, const struct stat *st, int to, const char *name)
{
    struct timespec times[2] = {st->st_atim, st->st_mtim};
    char target[PATH_MAX];
    ssize_t n = readlinkat(handle, "", target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (symlinkat(target, to, name) < 0)
        return -errno;
    if (fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EPERM)
        return -errno;
    return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_directory(TreeCopy *copy, int from, const struct stat *st, int to, const char *name,
                          unsigned depth)
{
    int r;

    if (depth > DEPTH_MAX)
        return problem_set(copy->problem, ERR_TOO_LARGE, "/session has more than %u levels of directories",
                           DEPTH_MAX);
    _cleanup_(closep) int original = beneath_open(from, name, O_RDONLY | O_DIRECTORY, 0);
    if (original < 0)
        return original;
    int made = mkdirat(to, name, 0700) < 0 ? -errno : 0;
    if (made < 0 && made != -EEXIST)
        return made;
    _cleanup_(closep) int new = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (new < 0)
        return made < 0 ? made : -errno;
    r = copy_contents(copy, original, new, NULL, depth);
    return r < 0 ? r : settle(new, st);
}

static int copy_found(TreeCopy *copy, int from, int handle, const struct stat *st, int to, const char *name,
                      unsigned depth)
{
    if (S_ISDIR(st->st_mode))
        return copy_directory(copy, from, st, to, name, depth + 1);
    if (S_ISREG(st->st_mode))
        return copy_regular(copy, handle, st, to, name);
    return S_ISLNK(st->st_mode) ? copy_symlink(handle, st, to, name) : 0;
}

static int copy_entry(TreeCopy *copy, int from, int to, const char *name, unsigned depth)
{
    struct stat st;
    _cleanup_(closep) int handle = beneath_find(from, name, &st);
    int r = handle < 0 ? handle : charge(copy, BLOCK);

    if (r < 0)
        return r;
    r = copy_found(copy, from, handle, &st, to, name, depth);
    if (r == -EEXIST && remove_tree(to, name, NULL) == 0)
        r = copy_found(copy, from, handle, &st, to, name, depth);
    return r;
}

/* `from` is open for reading. */
static int copy_contents(TreeCopy *copy, int from, int to, const char *skip, unsigned depth)
{
    int fd = fcntl(from, F_DUPFD_CLOEXEC, 3), r = 0;
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream) {
        r = -errno;
        closep(&fd);
        return r;
    }
    for (struct dirent *entry; r == 0 && (entry = readdir(stream));) {
        const char *name = entry->d_name;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (skip && strcmp(name, skip) == 0))
            continue;
        r = copy_entry(copy, from, to, name, depth);
        if (r < 0)
            r = vanished(r) ? 0 : failed(copy, name, r);
    }
    closedir(stream);
    return r;
}

int treecopy(int from, int to, const char *skip, uint64_t budget, uint64_t *ret_bytes, Problem *problem)
{
    TreeCopy copy = {.budget = budget, .problem = problem};
    _cleanup_(closep) int original = beneath_open(from, ".", O_RDONLY | O_DIRECTORY, 0);
    int r = original < 0 ? original : copy_contents(&copy, original, to, skip, 0);

    if (r < 0 && problem->code == ERR_NONE)
        problem_set(problem, ERR_INTERNAL, "cannot copy /session: %s", strerror(-r));
    *ret_bytes = copy.bytes;
    return r;
}
