#include <string.h>

#include "host/call.h"
#include "host/ops.h"

typedef struct Result {
    Text run_id;
    double timeout; /* negative: for ever */
} Result;

static const Field fields[] = {
    FIELD(FIELD_TEXT, Result, run_id, true, LIMIT_RUN_ID),
    FIELD(FIELD_DOUBLE, Result, timeout, false, 0),
};

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Result result = {.timeout = -1};
    char id[LIMIT_RUN_ID + 1] = "";
    Call *call;

    if (!op_decode(request, &result, fields, ARRAY_SIZE(fields), body))
        return;
    memcpy(id, result.run_id.data, result.run_id.size);
    call = call_find(controller, id);
    if (call)
        call_ask(call, request, result.timeout);
    else
        request_fail_text(request, ERR_NO_SUCH_RUN, "no call with run_id '%s' is running or stored", id);
}

const Op op_result = {.kind = MSG_RESULT, .handle = handle};
