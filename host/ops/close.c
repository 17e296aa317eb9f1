#include "host/ops.h"
#include "host/session.h"

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(controller, request, body);

    if (session)
        session_close(session, request, "a client closed it");
}

const Op op_close = {.kind = MSG_CLOSE, .handle = handle};
