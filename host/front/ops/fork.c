#include "host/session/fork.h"

#include "host/front/ops.h"

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgFork asked;
    Session *origin;

    if (!op_decode(request, &asked, MsgFork, body))
        return;
    origin = op_session(front, request, asked.session, asked.instance);
    if (!origin)
        return;
    if (value_count(&asked.names) == 0)
        request_fail_text(request, ERR_BAD_REQUEST, "`names` has no name: name each session to be made");
    else if (session_is_unsettled(origin))
        request_fail_text(request, ERR_BUSY, "the session '%s' is being restored; try again then",
                          origin->name);
    else
        session_fork(origin, request, &asked);
}

const Op op_fork = {.kind = MSG_FORK, .handle = handle};
