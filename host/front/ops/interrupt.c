#include <string.h>

#include "host/front/ops.h"

static void answer(Request *request, bool interrupted)
{
    request_answer(request, MsgInterruptReply, &(MsgInterruptReply){.interrupted = interrupted});
}

/* Interrupts one call, wherever it runs or waits. One that has ended is not interrupted. */
static void interrupt_call(Front *front, Request *request, Text run_id)
{
    char id[LIMIT_RUN_ID + 1] = "";
    Call *call;

    memcpy(id, run_id.data, run_id.size);
    call = call_find(front->calls, request->user, id);
    if (call)
        answer(request, !call_is_over(call) && call_interrupt(call));
    else
        request_fail_text(request, ERR_NO_SUCH_RUN, "no call with run_id '%s' is running or stored", id);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgInterrupt interrupt;
    Session *session;
    Call *running;

    if (!op_decode(request, &interrupt, MsgInterrupt, body))
        return;
    if (interrupt.run_id.data) {
        interrupt_call(front, request, interrupt.run_id);
        return;
    }
    session = op_session(front, request, interrupt.session, interrupt.instance);
    running = session ? call_running(session) : NULL;
    if (session)
        answer(request, running && call_interrupt(running));
}

const Op op_interrupt = {.kind = MSG_INTERRUPT, .lets_sleep = true, .handle = handle};
