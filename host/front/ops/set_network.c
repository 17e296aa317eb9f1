#include "host/front/ops.h"

static void answer(Request *request, const SessionOptions *options)
{
    const MsgOptions told = session_options_tell(options);
    const MsgSetNetworkReply reply = {.allow = told.allow, .bindings = told.bindings};

    request_answer(request, MsgSetNetworkReply, &reply);
}

/* Sets the network of a session's container, which its branches and contexts share. */
static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    Session *session;
    MsgSetNetwork said;

    if (!op_decode(request, &said, MsgSetNetwork, body))
        return;
    session = op_session(front, request, said.session, said.instance);
    if (!session)
        return;
    if ((said.allow.array || said.bindings.map) &&
        sandbox_set_network(session->sandbox, &said, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    answer(request, &session->sandbox->options);
}

const Op op_set_network = {.kind = MSG_SET_NETWORK, .handle = handle};
