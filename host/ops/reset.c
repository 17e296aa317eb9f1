#include "host/ops.h"
#include "host/session.h"

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(controller, request, body);

    if (session)
        session_reset(session, request);
}

const Op op_reset = {.kind = MSG_RESET, .handle = handle};
