#include <math.h>
#include <string.h>

#include "host/front/ops.h"

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgResult result;
    char id[LIMIT_RUN_ID + 1] = "";
    Call *call;

    if (!op_decode(request, &result, MsgResult, body))
        return;
    memcpy(id, result.run_id.data, result.run_id.size);
    call = call_find(front->calls, request->user, id);
    if (call)
        call_ask(call, request, isnan(result.timeout) ? -1 : result.timeout); /* negative: for ever */
    else
        request_fail_text(request, ERR_NO_SUCH_RUN, "no call with run_id '%s' is running or stored", id);
}

const Op op_result = {.kind = MSG_RESULT, .handle = handle};
