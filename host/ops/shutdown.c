#include "host/ops.h"

typedef struct Shutdown {
    bool keep;
} Shutdown;

static const Field fields[] = {FIELD(FIELD_BOOL, Shutdown, keep, false, 0)};

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Shutdown shutdown = {0};

    if (!op_decode(request, &shutdown, fields, ARRAY_SIZE(fields), body))
        return;
    list_append(&controller->shutdown_waiters, &request->link);
    controller_shutdown(controller, shutdown.keep);
}

const Op op_shutdown = {.kind = MSG_SHUTDOWN, .handle = handle};
