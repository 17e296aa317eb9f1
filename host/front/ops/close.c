#include "host/front/ops.h"

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);

    if (session)
        session_close(session, request, "a client closed it");
}

const Op op_close = {.kind = MSG_CLOSE, .lets_sleep = true, .handle = handle};
