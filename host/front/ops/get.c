#include "host/front/ops.h"

static void on_got(void *userdata, KeeperAnswer *answer)
{
    Request *request = userdata;

    if (answer->problem) {
        request_fail(request, answer->problem);
        return;
    }
    const MsgGetReply reply = {.data = answer->body->as_GET.data, .size = answer->body->as_GET.size};

    request_answer_passing(request, MsgGetReply, &reply, answer->descriptors[0]);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgGet get;
    Session *session;

    if (!op_decode(request, &get, MsgGet, body))
        return;
    session = op_session(front, request, get.session, get.instance);
    if (!session)
        return;
    const JobGet job = {
        .id = text_of(session->sandbox->files.id),
        .path = get.path,
        .offset = uint_or(get.offset, 0),
        .size = MIN(get.size, LIMIT_FILE_CHUNK),
        .descriptor = get.descriptor && !request->remote,
    };
    if (keeper_ask(front->sandboxes->keeper, request->user, JOB_GET, &job, on_got, request) < 0)
        request_fail_text(request, ERR_INTERNAL, "the file cannot be moved now: out of memory");
}

const Op op_get = {.kind = MSG_GET, .handle = handle};
