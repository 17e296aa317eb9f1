/* limpet_put() and limpet_get(): a file through a descriptor of the controller's, or in chunks; elsewhere
 * than in /session and /data as limpet_files_...() does it. */
#include "clients/c/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "clients/c/client.h"
#include "proto/base/base.h"
#include "proto/base/fdio.h"

/* ---- copying between descriptors, holes as holes ---- */

#define STEP ((size_t)16 << 20)

/* Not where something else lies, or where writing appends. */
static bool may_have_hole(int fd)
{
    off_t at = lseek(fd, 0, SEEK_CUR);
    struct stat st;

    return at >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && at >= st.st_size &&
           !(fcntl(fd, F_GETFL) & O_APPEND);
}

int skip_bytes(int fd, uint64_t size)
{
    static const uint8_t zeros[4096];
    int r = 0;

    if (size > 0 && may_have_hole(fd))
        return lseek(fd, (off_t)size, SEEK_CUR) < 0 ? -errno : 0;
    for (; r == 0 && size > 0; size -= MIN(size, sizeof(zeros)))
        r = write_all(fd, zeros, (size_t)MIN(size, sizeof(zeros)));
    return r;
}

int set_end(int fd)
{
    return may_have_hole(fd) && ftruncate(fd, lseek(fd, 0, SEEK_CUR)) < 0 ? -errno : 0;
}

/* As sendfile(), for what that does not know. */
static ssize_t copy_piece(int from, int to, off_t size)
{
    uint8_t bytes[64 << 10];
    ssize_t n = read_whole(from, bytes, (size_t)MIN(size, (off_t)sizeof(bytes)));
    int r = n > 0 ? write_all(to, bytes, (size_t)n) : 0;

    return r < 0 ? r : n;
}

/* 1: the file has become shorter. */
static int copy_run(int from, int to, off_t size)
{
    while (size > 0) {
        ssize_t n = sendfile(to, from, NULL, (size_t)MIN(size, (off_t)STEP));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL)
            n = copy_piece(from, to, size);
        else if (n < 0)
            n = -errno;
        if (n <= 0)
            return n < 0 ? (int)n : 1;
        size -= n;
    }
    return 0;
}

/* The next run of data at or after `at`; a file system that cannot say has no holes. */
static void next_run(int fd, off_t at, off_t size, off_t *ret_start, off_t *ret_end)
{
    off_t start = lseek(fd, at, SEEK_DATA), end;

    if (start < 0)
        start = errno == ENXIO ? size : at;
    start = MIN(start, size);
    end = start < size ? lseek(fd, start, SEEK_HOLE) : size;
    *ret_start = start;
    *ret_end = end > start && end < size ? end : size;
}

/* Copies what a regular file has from its position on to the position of the other. 0 or a negative errno. */
static int copy_rest(int from, int to)
{
    off_t at = lseek(from, 0, SEEK_CUR), start, end;
    struct stat st;
    int r = 0;

    if (at < 0 || fstat(from, &st) < 0)
        return -errno;
    for (; r == 0 && at < st.st_size; at = end) {
        next_run(from, at, st.st_size, &start, &end);
        r = skip_bytes(to, (uint64_t)(start - at));
        if (r == 0 && lseek(from, start, SEEK_SET) < 0)
            r = -errno;
        if (r == 0)
            r = copy_run(from, to, end - start);
    }
    return r < 0 ? r : set_end(to);
}

/* ---- putting and getting ---- */

/* Reads until the buffer has `size` bytes or the file ends. */
static int read_chunk(int fd, uint8_t *bytes, size_t size, size_t *ret, Problem *problem)
{
    ssize_t n = read_whole(fd, bytes, size);

    if (n < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot read the file: %s", strerror((int)-n));
    *ret = (size_t)n;
    return 0;
}

static bool is_below(const char *path, const char *directory)
{
    size_t n = strlen(directory);

    return strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool has_dots(const char *path)
{
    for (const char *at = strstr(path, ".."); at; at = strstr(at + 1, ".."))
        if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0'))
            return true;
    return false;
}

/* Only the sandbox itself knows what is at such a path; of others, the controller does. The same two rules as
 * in clients/python/src/limpet/_copying/_files.py. */
static bool is_elsewhere(const char *path)
{
    return has_dots(path) || !utf8_valid(path, strlen(path)) || (*path == '/' && !is_below(path, "/session"));
}

/* Only clients write there. */
static bool is_data(const char *path)
{
    return !has_dots(path) && is_below(path, "/data");
}

/* Asks whether the controller passes descriptors; one on another machine may say so and cannot. */
static int passes_descriptors(LimpetClient *client, bool *ret)
{
    int r = client_connect(client, false);

    *ret = false;
    for (size_t i = 0; !r && !client->address.remote && i < client->controller.n_features; i++)
        *ret = *ret || strcmp(client->controller.features[i], "descriptors") == 0;
    return r;
}

static int put_chunk(LimpetClient *client, const char *session, const char *path, uint64_t offset,
                     const uint8_t *bytes, size_t size, bool last)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgPut put = {.session = text_of(session),
                        .path = text_of(path),
                        .offset = offset,
                        .data = {(const char *)bytes, size},
                        .last = last};
    ClientCall call = {0};

    client_begin(client, &call, MSG_PUT, MsgPut, &put);
    return client_call(client, &call, &reply);
}

static bool is_large(int fd)
{
    off_t at = lseek(fd, 0, SEEK_CUR);
    struct stat st;

    return at >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size - at > LIMIT_FILE_CHUNK;
}

/* Gives up a copy, and so the room that it has taken so far. */
static int give_up(LimpetClient *client, const char *session, const char *path, int error)
{
    put_chunk(client, session, path, 0, (const uint8_t *)"", 0, false);
    if (error == -ENOSPC || error == -EDQUOT)
        return problem_set(&client->problem, ERR_FILE_FAILED,
                           "'%s': %s; remove files, or open the session with more `disk`", path,
                           strerror(-error));
    return problem_set(&client->problem, ERR_BAD_REQUEST, "cannot copy the file: %s", strerror(-error));
}

/* *ret_done: the controller has passed a descriptor. */
static int put_directly(LimpetClient *client, const char *session, const char *path, int fd, bool *ret_done)
{
    const MsgPut put = {
        .session = text_of(session), .path = text_of(path), .data = text_of(""), .descriptor = true};
    _cleanup_(closep) int to = -1;
    ClientCall call = {0};
    int r = client_ask_descriptor(client, &call, MSG_PUT, MsgPut, &put, &to);

    *ret_done = to >= 0;
    if (r || to < 0)
        return r;
    r = copy_rest(fd, to);
    if (r < 0)
        return give_up(client, session, path, r);
    return put_chunk(client, session, path, (uint64_t)lseek(to, 0, SEEK_CUR), (const uint8_t *)"", 0, true);
}

int limpet_put(LimpetClient *client, const char *session, const char *path, int fd)
{
    _cleanup_(freep) uint8_t *bytes = NULL;
    uint64_t offset = 0;
    size_t size = LIMIT_FILE_CHUNK;
    bool direct = false, done = false;
    int r;

    if (is_elsewhere(path) && !is_data(path))
        return limpet_files_write(client, session, path, fd, 0644, true);
    client->problem = PROBLEM_NULL;
    bytes = malloc(LIMIT_FILE_CHUNK);
    r = bytes ? 0 : -ENOMEM;
    if (!r && is_large(fd))
        r = passes_descriptors(client, &direct);
    if (!r && direct)
        r = put_directly(client, session, path, fd, &done);
    while (!r && !done && size == LIMIT_FILE_CHUNK) {
        r = read_chunk(fd, bytes, LIMIT_FILE_CHUNK, &size, &client->problem);
        if (!r)
            r = put_chunk(client, session, path, offset, bytes, size, size < LIMIT_FILE_CHUNK);
        offset += size;
    }
    return client_result(client, r);
}

/* *ret: how many bytes there were; 0 at the end. */
static int get_chunk(LimpetClient *client, const char *session, const char *path, uint64_t offset, int fd,
                     size_t *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgGet get = {
        .session = text_of(session), .path = text_of(path), .offset = offset, .size = LIMIT_FILE_CHUNK};
    ClientCall call = {.repeatable = true};
    MsgGetReply body;
    int r;

    client_begin(client, &call, MSG_GET, MsgGet, &get);
    r = client_call_for(client, &call, &reply, &body, MsgGetReply);
    if (r)
        return r;
    r = write_all(fd, body.data.data, body.data.size);
    if (r < 0)
        return problem_set(&client->problem, ERR_INTERNAL, "cannot write the file: %s", strerror(-r));
    *ret = body.data.size;
    return 0;
}

/* *ret_done: the controller has passed a descriptor. */
static int get_directly(LimpetClient *client, const char *session, const char *path, int fd, bool *ret_done)
{
    const MsgGet get = {.session = text_of(session), .path = text_of(path), .size = 0, .descriptor = true};
    _cleanup_(closep) int from = -1;
    ClientCall call = {.repeatable = true};
    int r = client_ask_descriptor(client, &call, MSG_GET, MsgGet, &get, &from);

    *ret_done = from >= 0;
    if (r || from < 0)
        return r;
    r = copy_rest(from, fd);
    return r < 0 ? problem_set(&client->problem, ERR_INTERNAL, "cannot copy the file: %s", strerror(-r)) : 0;
}

int limpet_get(LimpetClient *client, const char *session, const char *path, int fd)
{
    bool direct = false, done = false;
    uint64_t offset = 0;
    size_t size = 1;
    int r;

    if (is_elsewhere(path))
        return limpet_files_read(client, session, path, fd);
    client->problem = PROBLEM_NULL;
    r = passes_descriptors(client, &direct);
    if (!r && direct)
        r = get_directly(client, session, path, fd, &done);
    while (!r && !done && size > 0) {
        r = get_chunk(client, session, path, offset, fd, &size);
        offset += size;
    }
    return client_result(client, r);
}
