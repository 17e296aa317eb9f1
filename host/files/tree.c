#include "host/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "host/files/beneath.h"

/* ---- a file ---- */

#define BUFFER_SIZE (256u << 10)

int copier_init(Copier *copier)
{
    *copier = (Copier){.buffer = malloc(BUFFER_SIZE)};
    return copier->buffer ? 0 : -ENOMEM;
}

void copier_deinit(Copier *copier)
{
    free(copier->buffer);
    sha256_deinit(&copier->sha);
}

static int write_at(int fd, const uint8_t *bytes, size_t n, off_t at)
{
    while (n > 0) {
        ssize_t written = pwrite(fd, bytes, n, at);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        bytes += written;
        at += written;
        n -= (size_t)written;
    }
    return 0;
}

/* Hashes [start, end) of `from`, and writes it to `to` unless that is -1. */
static int copy_data(Copier *copier, int from, int to, off_t start, off_t end)
{
    while (start < end) {
        ssize_t n = pread(from, copier->buffer, (size_t)MIN(end - start, (off_t)BUFFER_SIZE), start);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
        int r = sha256_update(&copier->sha, copier->buffer, (size_t)n);
        if (r == 0 && to >= 0)
            r = write_at(to, copier->buffer, (size_t)n, start);
        if (r < 0)
            return r;
        start += n;
    }
    return 0;
}

static int hash_hole(Copier *copier, off_t size)
{
    static const uint8_t zeros[64 << 10];
    int r = 0;

    for (off_t n; r == 0 && size > 0; size -= n) {
        n = MIN(size, (off_t)sizeof(zeros));
        r = sha256_update(&copier->sha, zeros, (size_t)n);
    }
    return r;
}

int extent_next(int fd, off_t at, off_t size, off_t *ret_start, off_t *ret_end)
{
    off_t start = lseek(fd, at, SEEK_DATA);

    if (start < 0 && errno != ENXIO && errno != EINVAL)
        return -errno;
    if (start < 0)
        start = errno == ENXIO ? size : at;
    start = MIN(start, size);
    off_t end = start < size ? lseek(fd, start, SEEK_HOLE) : size;
    *ret_start = start;
    *ret_end = end > start && end < size ? end : size;
    return 0;
}

static int copy_extents(Copier *copier, int from, int to, off_t size)
{
    off_t start = 0, end = 0;

    for (off_t at = 0; at < size; at = end) {
        int r = extent_next(from, at, size, &start, &end);

        if (r == 0)
            r = hash_hole(copier, start - at);
        if (r == 0)
            r = copy_data(copier, from, to, start, end);
        if (r < 0)
            return r;
    }
    return to >= 0 && ftruncate(to, size) < 0 ? -errno : 0;
}

/* Shares the extents of `from` where the filesystem can: what is hashed is then the copy, which nobody else
 * can change. */
static bool clone_file(Copier *copier, int from, int to)
{
    if (!copier->no_clone && ioctl(to, FICLONE, from) == 0)
        return true;
    copier->no_clone = true;
    return false;
}

int copier_copy(Copier *copier, int from, int to, off_t size, uint8_t ret_sha256[SHA256_SIZE])
{
    int r = sha256_start(&copier->sha);

    if (r == 0 && clone_file(copier, from, to)) {
        r = ftruncate(to, size) < 0 ? -errno : 0;
        if (r == 0)
            r = copy_extents(copier, to, -1, size);
    } else if (r == 0) {
        r = copy_extents(copier, from, to, size);
    }
    return r < 0 ? r : sha256_finish(&copier->sha, ret_sha256);
}

/* ---- a whole tree ---- */

/* Directories within each other: each needs two descriptors meanwhile. */
#define DEPTH_MAX 64u
#define BLOCK     4096u
#define CHUNK     (1u << 20)

typedef struct TreeCopy {
    int from;         /* the whole of it */
    const char *skip; /* in there */
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

/* Adds up what the copy of a directory takes, where no extent can be shared. What cannot be looked at is for
 * the copy to find. */
static void measure(int from, const char *skip, unsigned depth, uint64_t *sum)
{
    DIR *stream;

    if (beneath_open_list(from, ".", &stream) < 0)
        return;
    for (struct dirent *entry; (entry = readdir(stream));) {
        const char *name = entry->d_name;
        struct stat st;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (skip && strcmp(name, skip) == 0) ||
            fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        *sum += BLOCK;
        if (S_ISREG(st.st_mode))
            *sum += MIN((uint64_t)st.st_size, (uint64_t)st.st_blocks * 512);
        _cleanup_(closep) int inner = S_ISDIR(st.st_mode) && depth < DEPTH_MAX
                                          ? beneath_open(from, name, O_RDONLY | O_DIRECTORY, 0)
                                          : -1;
        if (inner >= 0)
            measure(inner, NULL, depth + 1, sum);
    }
    closedir(stream);
}

/* Refuses a tree that does not fit before gigabytes of it are copied. */
static int check_whole(TreeCopy *copy, int to)
{
    uint64_t sum = 0;
    struct statvfs there;

    measure(copy->from, copy->skip, 0, &sum);
    if (sum > copy->budget)
        return charge(copy, sum);
    if (fstatvfs(to, &there) < 0 || sum <= (uint64_t)there.f_bavail * there.f_frsize)
        return 0;
    return problem_set(copy->problem, ERR_TOO_LARGE, "no room for a copy of %llu bytes: %llu are free",
                       (unsigned long long)sum, (unsigned long long)there.f_bavail * there.f_frsize);
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

static int copy_file(TreeCopy *copy, int from, int to, off_t size)
{
    off_t start = 0, end = 0;
    int r = 0;

    if (!copy->no_clone) {
        if (ioctl(to, FICLONE, from) == 0)
            return ftruncate(to, size) < 0 ? -errno : 0;
        copy->no_clone = true;
        r = check_whole(copy, to);
    }
    for (off_t at = 0; r == 0 && at < size; at = end) {
        r = extent_next(from, at, size, &start, &end);
        if (r == 0)
            r = copy_extent(copy, from, to, start, end);
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
    r = copy_file(copy, original, new, st->st_size);
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
    _cleanup_(closep) int original = beneath_open(from, ".", O_RDONLY | O_DIRECTORY, 0);
    TreeCopy copy = {.from = original, .skip = skip, .budget = budget, .problem = problem};
    int r = original < 0 ? original : copy_contents(&copy, original, to, skip, 0);

    if (r < 0 && problem->code == ERR_NONE)
        problem_set(problem, ERR_INTERNAL, "cannot copy /session: %s", strerror(-r));
    *ret_bytes = copy.bytes;
    return r;
}

/* ---- removing ----
 *
 * Sub-directories are not descended into but moved up: each directory is emptied of its files, its own
 * directories are renamed to numbered places at the top of the tree, and it is removed. The numbers are the
 * queue. So two descriptors are enough for any depth, and no ".." is ever trusted. */

/* Passes over a directory to which something is added meanwhile. */
#define PASSES 8

typedef struct Removal {
    int top;
    uint64_t next;  /* number of the next directory moved to the top */
    uint64_t count; /* removed */
    int error;      /* the first one */
} Removal;

typedef char QueueName[32];

static const char *queue_name(QueueName buffer, uint64_t number)
{
    snprintf(buffer, sizeof(QueueName), ".remove-%llx", (unsigned long long)number);
    return buffer;
}

static void removal_fail(Removal *removal, int error)
{
    if (removal->error == 0 && error != -ENOENT)
        removal->error = error;
}

/* Opens a directory for reading and emptying, whatever its mode was. */
static int open_directory(int dirfd, const char *name)
{
    char path[FD_PATH_SIZE];
    int fd = beneath_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0 && fd != -EACCES)
        return fd;
    /* Someone else's directory cannot be changed, but an access control list may let us in all the same. */
    if (fd >= 0 && (geteuid() == 0 || fchmod(fd, 0700) == 0 || errno == EPERM))
        return fd;
    close_fd(&fd);

    _cleanup_(closep) int handle = beneath_open(dirfd, name, O_PATH | O_DIRECTORY, 0);
    if (handle < 0)
        return handle;
    if (chmod(fd_path(path, handle), 0700) < 0)
        return -errno;
    return beneath_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

/* Moves directory `name` of `dirfd` to the end of the queue. */
static void enqueue(Removal *removal, int dirfd, const char *name)
{
    QueueName to;

    for (;;) {
        if (renameat(dirfd, name, removal->top, queue_name(to, removal->next++)) == 0)
            return;
        /* A name that hostile code took beforehand: the next number then. */
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            break;
    }
    if (errno != EACCES) {
        removal_fail(removal, -errno);
        return;
    }
    /* Moving a directory writes to it: without the right to, take it first. */
    _cleanup_(closep) int fd = open_directory(dirfd, name);
    if (fd < 0 || renameat(dirfd, name, removal->top, queue_name(to, removal->next++)) < 0)
        removal_fail(removal, fd < 0 ? fd : -errno);
}

typedef void (*OnDirectory)(Removal *removal, int dirfd, const char *name);

/* Unlinks what is in `dirfd` and hands each directory to `on_directory`. */
static void empty_directory(Removal *removal, int dirfd, OnDirectory on_directory)
{
    DIR *stream;
    int r = beneath_open_list(dirfd, ".", &stream);

    if (r < 0) {
        removal_fail(removal, r);
        return;
    }
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd, entry->d_name, 0) == 0)
            removal->count++;
        else if (errno == EISDIR || errno == EPERM)
            on_directory(removal, dirfd, entry->d_name);
        else
            removal_fail(removal, -errno);
    }
    closedir(stream);
}

/* Removes one directory whose own directories join the queue. */
static void remove_directory(Removal *removal, int dirfd, const char *name)
{
    _cleanup_(closep) int fd = open_directory(dirfd, name);

    if (fd == -ENOTDIR || fd == -ELOOP) { /* a taken queue name that is not a directory */
        if (unlinkat(dirfd, name, 0) == 0)
            removal->count++;
        return;
    }
    if (fd < 0) {
        removal_fail(removal, fd);
        return;
    }
    for (unsigned i = 0; i < PASSES; i++) {
        empty_directory(removal, fd, enqueue);
        if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0) {
            removal->count++;
            return;
        }
        if (errno != ENOTEMPTY && errno != EEXIST)
            break;
    }
    removal_fail(removal, -errno);
}

static void remove_contents(Removal *removal)
{
    QueueName name;

    empty_directory(removal, removal->top, remove_directory);
    for (uint64_t i = 0; i < removal->next; i++)
        remove_directory(removal, removal->top, queue_name(name, i));
}

int remove_tree(int dirfd, const char *name, uint64_t *ret_count)
{
    Removal removal = {.top = open_directory(dirfd, name)};
    int flag = AT_REMOVEDIR;

    if (removal.top == -ENOTDIR || removal.top == -ELOOP)
        flag = 0;
    else if (removal.top < 0)
        removal_fail(&removal, removal.top);
    else
        remove_contents(&removal);

    if (removal.error == 0 && unlinkat(dirfd, name, flag) < 0)
        removal_fail(&removal, -errno);
    else if (removal.error == 0 && removal.top != -ENOENT)
        removal.count++;
    closep(&removal.top);
    if (ret_count)
        *ret_count = removal.count;
    return removal.error;
}

int remove_path(const char *path)
{
    _cleanup_(freep) char *copy = strdup(path);
    char *slash = copy ? strrchr(copy, '/') : NULL;

    if (!copy)
        return -ENOMEM;
    if (!slash)
        return remove_tree(AT_FDCWD, path, NULL);

    const char *parent = slash == copy ? "/" : copy;
    const char *name = path + (slash - copy) + 1;
    if (slash != copy)
        *slash = '\0';
    _cleanup_(closep) int dirfd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return errno == ENOENT ? 0 : -errno;
    return remove_tree(dirfd, name, NULL);
}
