#include <string.h>

#include "host/ops/transfer.h"

typedef struct Get {
    Text session, instance;
    Text path;
    uint64_t offset;
    uint64_t size;
} Get;

static const Field fields[] = {
    FIELD(FIELD_TEXT, Get, session, true, 0),       FIELD(FIELD_TEXT, Get, instance, false, 0),
    FIELD(FIELD_TEXT, Get, path, true, LIMIT_PATH), FIELD(FIELD_UINT, Get, offset, false, 0),
    FIELD(FIELD_UINT, Get, size, false, 0),
};

static bool work(TransferJob *job)
{
    Text path = {job->path, strlen(job->path)};
    uint64_t size;
    Writer w;

    if (transfer_get(job->dirfd, path, job->offset, job->size, &job->data, &size, &job->problem) < 0)
        return false;
    writer_init(&w, &job->reply);
    write_map(&w, 2);
    write_key(&w, "data");
    write_bytes(&w, buf_head(&job->data), job->data.size);
    write_key(&w, "size");
    write_uint(&w, size);
    return writer_finish(&w) == 0;
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Get get = {.size = LIMIT_FILE_CHUNK};
    TransferJob job = {.request = request, .work = work};
    Session *session;

    if (!op_decode(request, &get, fields, ARRAY_SIZE(fields), body))
        return;
    session = op_session(controller, request, get.session, get.instance);
    if (!session)
        return;
    job.offset = get.offset;
    job.size = get.size;
    transfer_begin(controller, session, &job, get.path);
}

const Op op_get = {.kind = MSG_GET, .handle = handle};
