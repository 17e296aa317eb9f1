#include <string.h>

#include "host/link/envelope.h"
#include "host/front/ops/transfer.h"

static bool work(TransferJob *job)
{
    Text path = {job->path, strlen(job->path)};
    MsgGetReply reply = {0};

    if (job->descriptor)
        job->passed = transfer_open(job->dirfd, path, &reply.size, &job->problem);
    else
        transfer_get(job->dirfd, path, job->offset, job->size, &job->data, &reply.size, &job->problem);
    if (job->problem.code != ERR_NONE)
        return false;
    reply.data = job->data.size > 0 ? encoded_text(&job->data) : (Text){"", 0};
    return body_encode(&job->reply, MsgGetReply, &reply) == 0;
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgGet get;
    TransferJob job = {.request = request, .work = work};
    Session *session;

    if (!op_decode(request, &get, MsgGet, body))
        return;
    session = op_session(front, request, get.session, get.instance);
    if (!session)
        return;
    job.offset = uint_or(get.offset, 0);
    job.descriptor = get.descriptor;
    job.size = MIN(get.size, LIMIT_FILE_CHUNK);
    transfer_begin(front, session, &job, get.path);
}

const Op op_get = {.kind = MSG_GET, .handle = handle};
