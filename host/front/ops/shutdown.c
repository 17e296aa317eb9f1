#include "host/front/ops.h"

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgShutdown shutdown;

    if (!op_decode(request, &shutdown, MsgShutdown, body))
        return;
    if (!request_is_local(request, "shutdown ends the controller"))
        return;
    if (request->user != front->paths->user) {
        request_fail_text(
            request, ERR_DENIED,
            "only root may shut down this controller; close your own sessions with `limpet close`");
        return;
    }
    list_append(&front->shutdown_waiters, &request->link);
    front->shutdown(front->userdata, shutdown.keep);
}

const Op op_shutdown = {.kind = MSG_SHUTDOWN, .handle = handle};
