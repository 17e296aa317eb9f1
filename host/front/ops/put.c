#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "host/front/ops/transfer.h"

#define UPLOAD_KEY_SIZE (16 + 1 + LIMIT_PATH + 1)

/* Tells the uploads of one session apart: by connection and path. */
static void upload_key(char *ret, size_t size, const TransferJob *job)
{
    snprintf(ret, size, "%" PRIx64 ":%s", job->request->peer, job->path);
}

/* The file belongs to the interpreter's user, so that code may change it. Where that has no uid of its own it
 * is ours, and code may read and replace it. */
static bool work(TransferJob *job)
{
    uid_t owner = job->isolated ? GUEST_UID : (uid_t)-1;
    Text path = {job->path, strlen(job->path)};
    Text data = {(const char *)buf_head(&job->data), job->data.size};
    char key[UPLOAD_KEY_SIZE];
    MsgPutReply reply = {0};

    upload_key(key, sizeof(key), job);
    if (job->descriptor)
        job->passed = transfer_begin_upload(job->dirfd, path, key, &job->problem);
    else
        transfer_put(job->dirfd, path, job->offset, data, job->last, owner, owner, key, &reply.size,
                     &job->problem);
    if (job->problem.code != ERR_NONE)
        return false;
    return body_encode(&job->reply, MsgPutReply, &reply) == 0;
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgPut put;
    TransferJob job = {.request = request, .work = work};
    Session *session;

    if (!op_decode(request, &put, MsgPut, body))
        return;
    if (put.descriptor && (put.offset > 0 || put.data.size > 0 || put.last)) {
        request_fail_text(request, ERR_BAD_REQUEST, "descriptor: is asked for before there is any data");
        return;
    }
    session = op_session(front, request, put.session, put.instance);
    if (!session)
        return;
    if (buf_append(&job.data, put.data.data, put.data.size) < 0) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    job.offset = put.offset;
    job.last = put.last;
    job.descriptor = put.descriptor;
    transfer_begin(front, session, &job, put.path);
}

const Op op_put = {.kind = MSG_PUT, .handle = handle};
