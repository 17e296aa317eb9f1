#include "host/ops.h"

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    MsgShutdown shutdown;

    if (!op_decode(request, &shutdown, MsgShutdown, body))
        return;
    list_append(&controller->shutdown_waiters, &request->link);
    controller_shutdown(controller, shutdown.keep);
}

const Op op_shutdown = {.kind = MSG_SHUTDOWN, .handle = handle};
