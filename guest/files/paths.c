/* Names, and what is there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "guest/files/files.h"
#include "guest/supervisor/command_line.h"

static bool is_of_session(Text path)
{
    const size_t n = strlen(SESSION_PATH);

    return path.size >= n && memcmp(path.data, SESSION_PATH, n) == 0 &&
           (path.size == n || path.data[n] == '/');
}

int path_take(Path ret, Text path)
{
    if (path.size == 0)
        return -ENOENT;
    if (path.size > LIMIT_PATH)
        return -ENAMETOOLONG;
    if (memchr(path.data, '\0', path.size))
        return -EINVAL;
    if (is_of_session(path)) {
        size_t skip = strlen(SESSION_PATH);

        while (skip < path.size && path.data[skip] == '/')
            skip++;
        path = (Text){path.data + skip, path.size - skip};
    }
    memcpy(ret, path.data, path.size);
    ret[path.size] = '\0';
    if (path.size == 0)
        strcpy(ret, ".");
    return 0;
}

int path_join(Path ret, const char *directory, const char *name)
{
    size_t n = strlen(directory), m = strlen(name);
    bool slash = n > 0 && directory[n - 1] != '/';

    if (n + slash + m > LIMIT_PATH)
        return -ENAMETOOLONG;
    memmove(ret, directory, n);
    if (slash)
        ret[n] = '/';
    memcpy(ret + n + slash, name, m + 1);
    return 0;
}

int path_show(Path ret, Text path)
{
    Path name;
    int r = 0;

    strcpy(ret, path.size > 0 && path.data[0] == '/' ? "/" : SESSION_PATH);
    while (r == 0 && path.size > 0) {
        const char *slash = memchr(path.data, '/', path.size);
        size_t n = slash ? (size_t)(slash - path.data) : path.size;

        if (n > 0 && !(n == 1 && path.data[0] == '.')) {
            memcpy(name, path.data, n);
            name[n] = '\0';
            r = path_join(ret, ret, name);
        }
        path.data += MIN(n + 1, path.size);
        path.size -= MIN(n + 1, path.size);
    }
    return r;
}

int path_split(Path ret_directory, const char **ret_name, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EISDIR;
    if (!slash)
        strcpy(ret_directory, ".");
    else
        snprintf(ret_directory, sizeof(Path), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    *ret_name = name;
    return 0;
}

int path_make(const char *path)
{
    Path part;

    for (const char *end = path; *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
        /* A directory that is there may be in one that cannot be written to. */
        if (mkdir(part, 0755) < 0 && errno != EEXIST && access(part, F_OK) < 0)
            return -errno;
    }
    return 0;
}

/* ---- what is there ---- */

static const char *type_of(mode_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : "other";
}

void entry_fill(MsgFileEntry *ret, const struct stat *st)
{
    body_clear(ret, MsgFileEntry);
    ret->type = text_of(type_of(st->st_mode));
    ret->size = (uint64_t)st->st_size;
    ret->mode = st->st_mode & 07777;
    ret->modified = (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec * 1e-9;
}

/* Tells whether the file has extended attributes of somebody's: their names begin with `user.`. */
static bool has_attributes(int directory, const char *name)
{
    char path[LIMIT_PATH + 40], names[4 << 10];
    int size = directory == AT_FDCWD ? snprintf(path, sizeof(path), "%s", name)
                                     : snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", directory, name);
    ssize_t n = size < (int)sizeof(path) ? llistxattr(path, names, sizeof(names)) : -1;

    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
        if (strncmp(names + at, "user.", 5) == 0)
            return true;
    return n < 0 && errno == ERANGE; /* so long is no list of the system's own */
}

int entry_read(MsgFileEntry *ret, int directory, const char *name, const char *shown, Path target)
{
    struct stat st;

    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    entry_fill(ret, &st);
    ret->path = text_of(shown);
    ret->attributes = has_attributes(directory, name);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(directory, name, target, LIMIT_PATH);

        if (n < 0)
            return -errno;
        ret->target = (Text){target, (size_t)n};
    }
    return 0;
}

/* ---- opening ---- */

int beneath(int directory, const char *path, int flags, mode_t mode)
{
    const struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                                 .mode = mode,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));

    return fd < 0 ? -errno : fd;
}

int regular_open(int directory, const char *path, bool is_beneath, struct stat *ret)
{
    const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    _cleanup_(closep) int fd =
        is_beneath ? beneath(directory, path, flags | O_NOFOLLOW, 0) : openat(directory, path, flags);

    if (fd < 0)
        return is_beneath ? fd : -errno;
    if (fstat(fd, ret) < 0)
        return -errno;
    if (S_ISDIR(ret->st_mode))
        return -EISDIR;
    return S_ISREG(ret->st_mode) ? take_fd(&fd) : -ENXIO;
}

ssize_t read_up_to(int fd, uint8_t *to, size_t size, off_t offset)
{
    size_t used = 0;

    while (used < size) {
        ssize_t n = pread(fd, to + used, size - used, offset + (off_t)used);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}
