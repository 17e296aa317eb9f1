#include "host/front/ops.h"

static void on_put(void *userdata, KeeperAnswer *answer)
{
    Request *request = userdata;

    if (answer->problem) {
        request_fail(request, answer->problem);
        return;
    }
    const MsgPutReply reply = {.size = answer->body->as_PUT.size};

    request_answer_passing(request, MsgPutReply, &reply, answer->descriptors[0]);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgPut put;
    Session *session;

    if (!op_decode(request, &put, MsgPut, body))
        return;
    session = op_session(front, request, put.session, put.instance);
    if (!session)
        return;
    const JobPut job = {
        .id = text_of(session->sandbox->files.id),
        .path = put.path,
        .client = request->peer,
        .offset = put.offset,
        .data = put.data,
        .last = put.last,
        .give = sandboxes_isolate(front->sandboxes),
        .descriptor = put.descriptor && !request->remote,
    };
    if (keeper_ask(front->sandboxes->keeper, request->user, JOB_PUT, &job, on_put, request) < 0)
        request_fail_text(request, ERR_INTERNAL, "the file cannot be moved now: out of memory");
}

const Op op_put = {.kind = MSG_PUT, .handle = handle};
