#include "guest/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "guest/supervisor/command_line.h"
#include "proto/base/log.h"

/* ---- answers ---- */

static int send_out(Files *files)
{
    int r = channel_write(CHANNEL_FD, &files->out);

    if (r < 0)
        loop_stop(files->loop, 0); /* the supervisor is gone */
    return 0;
}

int files_reply_with(Files *files, uint64_t id, const Schema *schema, const void *body)
{
    int r = channel_append(&files->out, MSG_REPLY, id, schema, body);

    return r < 0 ? r : send_out(files);
}

int files_reply_empty(Files *files, uint64_t id)
{
    return files_reply(files, id, MsgNothing, &(MsgNothing){0});
}

void files_fail(Files *files, uint64_t id, int error, Text path)
{
    const MsgFileFailed failed = {.error = (uint64_t)-error, .path = path};

    if (channel_say(&files->out, MSG_FILE_FAILED, id, MsgFileFailed, &failed) == 0)
        send_out(files);
    else
        loop_stop(files->loop, 0); /* without memory for that nothing can be done here */
}

int files_blame(Files *files, const char *path, int error)
{
    size_t n = MIN(strlen(path), sizeof(files->blamed) - 1);

    memcpy(files->blamed, path, n);
    files->blamed[n] = '\0';
    return error;
}

/* ---- questions ---- */

/* The path that a question is about. */
static Text path_of(const MsgFileAsk *ask, FileOp op)
{
    switch (op) {
    case FILE_STAT:
        return ask->stat.path;
    case FILE_LIST:
        return ask->list.path;
    case FILE_READ:
        return ask->read.path;
    case FILE_WRITE:
        return ask->write.path;
    case FILE_MKDIR:
        return ask->mkdir.path;
    case FILE_MOVE:
        return ask->move.old;
    case FILE_REMOVE:
        return ask->remove.path;
    case FILE_FETCH:
        return ask->fetch.path;
    case FILE_STORE:
        return ask->store.path;
    case FILE_WATCH:
        return ask->watch.path;
    default:
        return (Text){0};
    }
}

static int answer(Files *files, uint64_t id, const MsgFileAsk *ask, FileOp op)
{
    switch (op) {
#define FILE_OP(member, name, reply)                                                                         \
    case FILE_##name:                                                                                        \
        return files_##member(files, id, &ask->member);
#include "proto/file_ops.def"
#undef FILE_OP
    case FILE_OPS:
        break;
    }
    return -EINVAL;
}

static void handle(Files *files, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    MsgFileAsk ask;
    int op = message->kind == MSG_FILES ? body_decode(&ask, MsgFileAsk, &message->body, &problem) : -EPROTO;
    int r;

    if (op == 0)
        op = file_ask_op(&ask, &problem);
    if (op < 0) {
        files_fail(files, message->id, -EINVAL, (Text){0});
        return;
    }
    files->blamed[0] = '\0';
    r = answer(files, message->id, &ask, (FileOp)op);
    if (r < 0)
        files_fail(files, message->id, r,
                   files->blamed[0] ? text_of(files->blamed) : path_of(&ask, (FileOp)op));
}

/* ---- the channel ---- */

static void take_messages(Files *files)
{
    ChannelFrame frame;
    int fds[CHANNEL_FDS];

    while (channel_reader_take(&files->reader, &frame, fds) > 0) {
        Message message _cleanup_(message_deinit) = MESSAGE_NULL;
        Problem problem = PROBLEM_NULL;

        for (size_t i = 0; i < CHANNEL_FDS; i++)
            close_fd(&fds[i]);
        if (message_decode(&message, frame.data, frame.size, &problem) < 0) {
            log_error("message refused", "reason=%s", problem.text);
            loop_stop(files->loop, 1);
            return;
        }
        handle(files, &message);
    }
}

static void on_channel_ready(LoopFile *file, uint32_t events)
{
    Files *files = container_of(file, Files, file);
    int r = channel_reader_fill(&files->reader, CHANNEL_FD);

    if (r == 0)
        take_messages(files);
    else if (r != -EINTR)
        loop_stop(files->loop, 0);
}

int files_main(void)
{
    _cleanup_(loop_freep) Loop *loop = NULL;
    Files files = {.reader = CHANNEL_READER_NULL};
    int r = loop_new(&loop);

    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is EFBIG */
    signal(SIGPIPE, SIG_IGN);
    umask(022);
    files.loop = loop;
    if (r == 0)
        r = loop_file_add(loop, &files.file, CHANNEL_FD, EPOLLIN, on_channel_ready);
    if (r == 0)
        r = loop_run(loop);
    /* All else goes with the process. */
    return r < 0 ? 1 : r;
}

/* ---- paths ---- */

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
