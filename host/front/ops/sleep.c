#include "host/front/ops.h"

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);

    if (session && session->branch != 0)
        request_fail_text(request, ERR_BAD_REQUEST, "'%s' shares its container: put '%s' to sleep",
                          session->name, session->sandbox->root->name);
    else if (session)
        session_sleep(session, request);
}

const Op op_sleep = {.kind = MSG_SLEEP, .lets_sleep = true, .handle = handle};
