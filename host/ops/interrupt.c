#include <string.h>

#include "host/call.h"
#include "host/ops.h"
#include "host/session.h"

static void answer(Request *request, bool interrupted)
{
    request_answer(request, MsgInterruptReply, &(MsgInterruptReply){.interrupted = interrupted});
}

/* One call, wherever it runs or waits. One that has ended is not interrupted. */
static void interrupt_call(Controller *controller, Request *request, Text run_id)
{
    char id[LIMIT_RUN_ID + 1] = "";
    Call *call;

    memcpy(id, run_id.data, run_id.size);
    call = call_find(controller, id);
    if (call)
        answer(request, !call_ended(call) && session_interrupt(call->turn.session, call));
    else
        request_fail_text(request, ERR_NO_SUCH_RUN, "no call with run_id '%s' is running or stored", id);
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    MsgInterrupt interrupt;
    Session *session;

    if (!op_decode(request, &interrupt, MsgInterrupt, body))
        return;
    if (interrupt.run_id.data) {
        interrupt_call(controller, request, interrupt.run_id);
        return;
    }
    session = op_session(controller, request, interrupt.session, interrupt.instance);
    if (session)
        answer(request, session_interrupt(session, session_running(session)));
}

const Op op_interrupt = {.kind = MSG_INTERRUPT, .handle = handle};
