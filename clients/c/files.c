/* limpet_put() and limpet_get(): a file in chunks. */
#include <errno.h>
#include <string.h>

#include "clients/c/client.h"

/* Reads until the buffer has `size` bytes or the file ends. */
static int read_chunk(int fd, uint8_t *bytes, size_t size, size_t *ret, Problem *problem)
{
    size_t got = 0;

    while (got < size) {
        ssize_t n = read(fd, bytes + got, size - got);

        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return problem_set(problem, ERR_BAD_REQUEST, "the file to put cannot be read: %s",
                               strerror(errno));
        got += n > 0 ? (size_t)n : 0;
    }
    *ret = got;
    return 0;
}

static int write_all(int fd, const char *bytes, size_t size, Problem *problem)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);

        if (n < 0 && errno != EINTR)
            return problem_set(problem, ERR_INTERNAL, "the file cannot be written: %s", strerror(errno));
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void write_place(Writer *w, const char *session, const char *path, uint64_t offset)
{
    write_pair(w, "session", session);
    write_key(w, "path");
    write_name(w, path);
    write_key(w, "offset");
    write_uint(w, offset);
}

static int put_chunk(LimpetClient *client, const char *session, const char *path, uint64_t offset,
                     const uint8_t *bytes, size_t size, bool last)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Call call = {0};
    Writer w;

    client_begin(client, &call, &w, MSG_PUT, 5);
    write_place(&w, session, path, offset);
    write_key(&w, "data");
    write_bytes(&w, bytes, size);
    write_key(&w, "last");
    write_bool(&w, last);
    return client_call(client, &call, &w, &reply);
}

int limpet_put(LimpetClient *client, const char *session, const char *path, int fd)
{
    _cleanup_(freep) uint8_t *bytes = malloc(LIMIT_FILE_CHUNK);
    uint64_t offset = 0;
    size_t size = LIMIT_FILE_CHUNK;
    int r = bytes ? 0 : -ENOMEM;

    client->problem = PROBLEM_NULL;
    while (!r && size == LIMIT_FILE_CHUNK) {
        r = read_chunk(fd, bytes, LIMIT_FILE_CHUNK, &size, &client->problem);
        if (!r)
            r = put_chunk(client, session, path, offset, bytes, size, size < LIMIT_FILE_CHUNK);
        offset += size;
    }
    return client_result(client, r);
}

typedef struct GetReply {
    Text data;
    uint64_t size;
} GetReply;

static const Field get_fields[] = {
    FIELD(FIELD_BYTES, GetReply, data, true, LIMIT_FILE_CHUNK),
    FIELD(FIELD_UINT, GetReply, size, true, 0),
};

/* *ret: how many bytes there were; 0 at the end. */
static int get_chunk(LimpetClient *client, const char *session, const char *path, uint64_t offset, int fd,
                     size_t *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Call call = {.repeatable = true};
    GetReply body = {0};
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_GET, 4);
    write_place(&w, session, path, offset);
    write_key(&w, "size");
    write_uint(&w, LIMIT_FILE_CHUNK);
    r = client_call(client, &call, &w, &reply);
    if (!r)
        r = reply_fields(&body, get_fields, ARRAY_SIZE(get_fields), &reply.message.body, &client->problem);
    if (!r)
        r = write_all(fd, body.data.data, body.data.size, &client->problem);
    if (!r)
        *ret = body.data.size;
    return r;
}

int limpet_get(LimpetClient *client, const char *session, const char *path, int fd)
{
    uint64_t offset = 0;
    size_t size = 1;
    int r = 0;

    while (!r && size > 0) {
        r = get_chunk(client, session, path, offset, fd, &size);
        offset += size;
    }
    return client_result(client, r);
}
