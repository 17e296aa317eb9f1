#include "host/ops.h"

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    if (!op_decode(request, NULL, NULL, 0, body))
        return;
    list_append(&controller->shutdown_waiters, &request->link);
    controller_shutdown(controller);
}

const Op op_shutdown = {.kind = MSG_SHUTDOWN, .handle = handle};
