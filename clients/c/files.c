/* limpet_put() and limpet_get(): a file in chunks. */
#include <errno.h>
#include <string.h>

#include "clients/c/client.h"
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

int limpet_put(LimpetClient *client, const char *session, const char *path, int fd)
{
    _cleanup_(freep) uint8_t *bytes = malloc(LIMIT_FILE_CHUNK);
    uint64_t offset = 0;
    size_t size = LIMIT_FILE_CHUNK;
    int r = bytes ? check_path(client, path) : -ENOMEM;

    while (!r && size == LIMIT_FILE_CHUNK) {
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

int limpet_get(LimpetClient *client, const char *session, const char *path, int fd)
{
    uint64_t offset = 0;
    size_t size = 1;
    int r = check_path(client, path);

    while (!r && size > 0) {
        r = get_chunk(client, session, path, offset, fd, &size);
        offset += size;
    }
    return client_result(client, r);
}
