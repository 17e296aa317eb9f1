#include "host/files/transfer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/names.h"
#include "proto/base/fdio.h"

#define PREFIX         "/session"
#define UPLOAD_PREFIX  "put-"
#define DISPLAY_SIZE   256
#define DIRECTORY_MODE 0755
#define OURS           (uid_t) - 1, (gid_t)-1

typedef struct SessionPath {
    char path[LIMIT_PATH + 1]; /* relative, without empty, "." and ".." components */
    char display[DISPLAY_SIZE];
} SessionPath;

static int bad_path(Problem *problem, const char *what)
{
    return problem_set(problem, ERR_BAD_REQUEST, "path: %s", what);
}

/* Appends one component of a path, which may be one that means nothing. */
static int append_component(SessionPath *ret, size_t *used, const char *name, size_t n, Problem *problem)
{
    if (n == 0 || (n == 1 && name[0] == '.'))
        return 0;
    if (n == 2 && memcmp(name, "..", 2) == 0)
        return bad_path(problem, "'..' is not allowed");
    if (n > NAME_MAX)
        return bad_path(problem, "a component is longer than 255 bytes");
    if (*used > 0)
        ret->path[(*used)++] = '/';
    memcpy(ret->path + *used, name, n);
    *used += n;
    ret->path[*used] = '\0';
    return 0;
}

static int parse_path(SessionPath *ret, Text text, Problem *problem)
{
    const size_t prefix = strlen(PREFIX);
    size_t used = 0;

    if (text.size == 0 || text.size > LIMIT_PATH)
        return bad_path(problem, text.size == 0 ? "must not be empty" : "too long");
    if (memchr(text.data, '\0', text.size))
        return bad_path(problem, "must not contain a zero byte");
    if (text.data[0] == '/') {
        if (text.size < prefix || memcmp(text.data, PREFIX, prefix) != 0 ||
            (text.size > prefix && text.data[prefix] != '/'))
            return bad_path(problem, "must be below " PREFIX ", or below /data to put a file there");
        text.data += prefix;
        text.size -= prefix;
    }
    ret->path[0] = '\0';
    while (text.size > 0) {
        const char *slash = memchr(text.data, '/', text.size);
        size_t n = slash ? (size_t)(slash - text.data) : text.size;

        if (append_component(ret, &used, text.data, n, problem) < 0)
            return -EPROTO;
        text.data += MIN(n + 1, text.size);
        text.size -= MIN(n + 1, text.size);
    }
    if (used == 0)
        return bad_path(problem, "must name a file");
    path_display(ret->display, sizeof(ret->display), ret->path);
    return 0;
}

/* ---- put ---- */

static bool is_ours(const char *path)
{
    const size_t n = strlen(TRANSFER_DIRECTORY);

    return strncmp(path, TRANSFER_DIRECTORY, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static int put_failed(Problem *problem, const SessionPath *path, int error)
{
    switch (-error) {
    case EISDIR:
    case ENOTEMPTY:
    case EEXIST:
        return problem_set(problem, ERR_BAD_REQUEST, "'%s' is a directory", path->display);
    case ENOTDIR:
    case ELOOP:
    case EXDEV:
        return problem_set(problem, ERR_BAD_REQUEST, "a parent of '%s' is not a directory of the session",
                           path->display);
    case EFBIG:
        return problem_set(problem, ERR_TOO_LARGE, "'%s' is too large", path->display);
    case ENOSPC:
    case EDQUOT:
        return problem_set(problem, ERR_FILE_FAILED,
                           "'%s': %s; remove files, or open the session with more `disk` or `files`",
                           path->display, strerror(-error));
    default:
        return problem_set(problem, ERR_INTERNAL, "cannot write '%s': %s", path->display, strerror(-error));
    }
}

/* The temporary file of an upload, which has `offset` bytes and is written to behind them. -ESPIPE when it
 * has another number, -ENOENT when there is none. */
static int open_upload(int directory, const char *name, uint64_t offset)
{
    struct stat st;

    if (offset == 0) {
        if (unlinkat(directory, name, 0) < 0 && errno != ENOENT)
            return -errno;
        return beneath_open(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    _cleanup_(closep) int fd = beneath_open(directory, name, O_WRONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != offset)
        return -ESPIPE;
    return lseek(fd, (off_t)offset, SEEK_SET) < 0 ? -errno : take_fd(&fd);
}

/* Makes the directory that a path lies in, and returns a handle on it, with the last name of the path. */
static int make_parent(int session_dirfd, const SessionPath *path, uid_t uid, gid_t gid,
                       const char **ret_name)
{
    const char *slash = strrchr(path->path, '/');
    char parent[LIMIT_PATH + 1];

    *ret_name = slash ? slash + 1 : path->path;
    snprintf(parent, sizeof(parent), "%.*s", (int)(slash ? slash - path->path : 0), path->path);
    return beneath_mkdirs(session_dirfd, parent, DIRECTORY_MODE, uid, gid);
}

/* Gives the finished upload its owner and mode and moves it to its path. */
static int finish_upload(int session_dirfd, int uploads, const char *upload, int fd, const SessionPath *path,
                         uid_t uid, gid_t gid)
{
    const char *name;
    _cleanup_(closep) int directory = make_parent(session_dirfd, path, uid, gid, &name);

    if (directory < 0)
        return directory;
    if (fchmod(fd, 0644) < 0 || (fchown(fd, uid, gid) < 0 && errno != EPERM))
        return -errno;
    return renameat(uploads, upload, directory, name) < 0 ? -errno : 0;
}

/* Place an upload goes to, and the name of its temporary file meanwhile. */
typedef struct PutPlace {
    SessionPath to;
    char name[sizeof(UPLOAD_PREFIX) + NAME_ESCAPED_SIZE];
} PutPlace;

/* Returns a handle on the directory of temporary files. */
static int find_uploads(PutPlace *ret, int session_dirfd, Text path, const char *key, Problem *problem)
{
    if (parse_path(&ret->to, path, problem) < 0)
        return -EPROTO;
    if (is_ours(ret->to.path))
        return bad_path(problem, "'" TRANSFER_DIRECTORY "' belongs to the controller");
    strcpy(ret->name, UPLOAD_PREFIX);
    int r = name_escape(ret->name + strlen(UPLOAD_PREFIX), key);
    if (r == 0)
        r = beneath_open(session_dirfd, TRANSFER_DIRECTORY, O_PATH | O_DIRECTORY, 0);
    return r < 0 ? put_failed(problem, &ret->to, r) : r;
}

int transfer_begin_upload(int session_dirfd, Text path, const char *key, Problem *problem)
{
    PutPlace upload;
    _cleanup_(closep) int uploads = find_uploads(&upload, session_dirfd, path, key, problem);
    int fd = uploads < 0 ? uploads : open_upload(uploads, upload.name, 0);

    return fd < 0 && fd != -EPROTO ? put_failed(problem, &upload.to, fd) : fd;
}

int transfer_put(int session_dirfd, Text path, uint64_t offset, Text data, bool last, uid_t uid, gid_t gid,
                 const char *key, uint64_t *ret_size, Problem *problem)
{
    PutPlace upload;

    if (data.size > LIMIT_FILE_CHUNK)
        return problem_set(problem, ERR_TOO_LARGE, "data: more than %u bytes in one message",
                           LIMIT_FILE_CHUNK);
    _cleanup_(closep) int uploads = find_uploads(&upload, session_dirfd, path, key, problem);
    if (uploads < 0)
        return uploads;
    _cleanup_(closep) int fd = open_upload(uploads, upload.name, offset);
    if (fd == -ESPIPE)
        return problem_set(problem, ERR_BAD_REQUEST, "offset: %llu is not the end of the previous chunk",
                           (unsigned long long)offset);
    if (fd == -ENOENT && offset > 0)
        return problem_set(problem, ERR_UNAVAILABLE,
                           "what came before is gone, with the controller that took it: begin again");
    int r = fd < 0 ? fd : write_all(fd, data.data, data.size);
    if (r == 0 && last)
        r = finish_upload(session_dirfd, uploads, upload.name, fd, &upload.to, uid, gid);
    if (r < 0) {
        unlinkat(uploads, upload.name, 0);
        return put_failed(problem, &upload.to, r);
    }
    *ret_size = offset + data.size;
    return 0;
}

int transfer_link(int session_dirfd, Text path, Text target, Problem *problem)
{
    _cleanup_(freep) char *to = text_dup(target);
    const char *name;
    SessionPath from;

    if (parse_path(&from, path, problem) < 0)
        return -EPROTO;
    _cleanup_(closep) int directory = to ? make_parent(session_dirfd, &from, OURS, &name) : -ENOMEM;
    int r = MIN(directory, 0);
    if (r == 0 && unlinkat(directory, name, 0) < 0 && errno != ENOENT)
        r = -errno;
    if (r == 0 && symlinkat(to, directory, name) < 0)
        r = -errno;
    return r < 0 ? put_failed(problem, &from, r) : 0;
}

int transfer_mkdirs(int session_dirfd, Text path, Problem *problem)
{
    SessionPath to;

    if (parse_path(&to, path, problem) < 0)
        return -EPROTO;
    _cleanup_(closep) int fd = beneath_mkdirs(session_dirfd, to.path, DIRECTORY_MODE, OURS);
    return fd < 0 ? put_failed(problem, &to, fd) : 0;
}

/* Removes the temporary files whose names begin so. */
static void remove_uploads(int session_dirfd, const char *prefix)
{
    int uploads = beneath_open(session_dirfd, TRANSFER_DIRECTORY, O_RDONLY | O_DIRECTORY, 0);
    DIR *stream = uploads < 0 ? NULL : fdopendir(uploads);

    if (!stream) {
        closep(&uploads);
        return;
    }
    for (struct dirent *entry; (entry = readdir(stream));)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(uploads, entry->d_name, 0);
    closedir(stream);
}

void transfer_clean(int session_dirfd)
{
    remove_uploads(session_dirfd, UPLOAD_PREFIX);
}

void transfer_forget(int session_dirfd, const char *keys)
{
    char prefix[sizeof(UPLOAD_PREFIX) + NAME_ESCAPED_SIZE] = UPLOAD_PREFIX;

    if (name_escape(prefix + strlen(UPLOAD_PREFIX), keys) == 0)
        remove_uploads(session_dirfd, prefix);
}

/* ---- get ---- */

static int get_failed(Problem *problem, const SessionPath *path, int error)
{
    switch (-error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        return problem_set(problem, ERR_NO_SUCH_FILE, "there is no file '%s' in the session", path->display);
    case ELOOP:
        return problem_set(problem, ERR_NO_SUCH_FILE, "'%s' is, or lies behind, a symbolic link",
                           path->display);
    case EISDIR:
        return problem_set(problem, ERR_NO_SUCH_FILE, "'%s' is a directory", path->display);
    case ENXIO:
    case EXDEV:
        return problem_set(problem, ERR_NO_SUCH_FILE, "'%s' is not a regular file", path->display);
    default:
        return problem_set(problem, ERR_INTERNAL, "cannot read '%s': %s", path->display, strerror(-error));
    }
}

static int read_chunk(int fd, uint64_t offset, size_t size, Buf *out)
{
    uint8_t *to = buf_reserve(out, size);
    ssize_t n = to ? read_whole_at(fd, to, size, (off_t)offset) : -ENOBUFS;

    if (n < 0)
        return (int)n;
    buf_commit(out, (size_t)n);
    return 0;
}

static int open_regular(SessionPath *ret, int session_dirfd, Text path, uint64_t *ret_size, Problem *problem)
{
    struct stat st;
    int fd;

    if (parse_path(ret, path, problem) < 0)
        return -EPROTO;
    fd = beneath_open_regular(session_dirfd, ret->path, &st);
    if (fd < 0)
        return get_failed(problem, ret, fd);
    *ret_size = (uint64_t)st.st_size;
    return fd;
}

int transfer_open(int session_dirfd, Text path, uint64_t *ret_size, Problem *problem)
{
    SessionPath from;

    return open_regular(&from, session_dirfd, path, ret_size, problem);
}

int transfer_get(int session_dirfd, Text path, uint64_t offset, uint64_t size, Buf *out, uint64_t *ret_size,
                 Problem *problem)
{
    SessionPath from;
    _cleanup_(closep) int fd = open_regular(&from, session_dirfd, path, ret_size, problem);

    if (fd < 0)
        return fd;
    uint64_t left = offset < *ret_size ? *ret_size - offset : 0;
    size_t n = (size_t)MIN(MIN(size, left), (uint64_t)LIMIT_FILE_CHUNK);
    int r = n > 0 ? read_chunk(fd, offset, n, out) : 0;

    return r < 0 ? get_failed(problem, &from, r) : 0;
}
