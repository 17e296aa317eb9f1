/* limpet_put() and limpet_get(): a file through a descriptor of the controller's, or in chunks. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/client.h"
#include "clients/c/copying.h"
#include "proto/base/fdio.h"

/* Reads until the buffer has `size` bytes or the file ends. */
static int read_chunk(int fd, uint8_t *bytes, size_t size, size_t *ret, Problem *problem)
{
    ssize_t n = read_whole(fd, bytes, size);

    if (n < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot read the file: %s", strerror((int)-n));
    *ret = (size_t)n;
    return 0;
}

/* The controller refuses these too, but the encoder would replace what is not UTF-8. */
static int check_path(LimpetClient *client, const char *path)
{
    client->problem = PROBLEM_NULL;
    if (utf8_valid(path, strlen(path)))
        return 0;
    return problem_set(&client->problem, ERR_BAD_REQUEST, "the path is not valid UTF-8");
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
    _cleanup_(freep) uint8_t *bytes = malloc(LIMIT_FILE_CHUNK);
    uint64_t offset = 0;
    size_t size = LIMIT_FILE_CHUNK;
    bool direct = false, done = false;
    int r = bytes ? check_path(client, path) : -ENOMEM;

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
    r = client_call(client, &call, &reply);
    if (!r)
        r = reply_decode(&body, MsgGetReply, &reply.message.body, &client->problem);
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
    int r = check_path(client, path);

    if (!r)
        r = passes_descriptors(client, &direct);
    if (!r && direct)
        r = get_directly(client, session, path, fd, &done);
    while (!r && !done && size > 0) {
        r = get_chunk(client, session, path, offset, fd, &size);
        offset += size;
    }
    return client_result(client, r);
}
