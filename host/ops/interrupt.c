#include <string.h>

#include "host/call.h"
#include "host/ops.h"
#include "host/session.h"

typedef struct Interrupt {
    Text session, instance;
    Text run_id;
} Interrupt;

static const Field fields[] = {
    FIELD(FIELD_TEXT, Interrupt, session, false, 0),
    FIELD(FIELD_TEXT, Interrupt, instance, false, 0),
    FIELD(FIELD_TEXT, Interrupt, run_id, false, LIMIT_RUN_ID),
};

static void answer(Request *request, bool interrupted)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    writer_init(&w, &body);
    write_map(&w, 1);
    write_key(&w, "interrupted");
    write_bool(&w, interrupted);
    writer_finish(&w);
    request_reply(request, &body);
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
    Interrupt interrupt = {0};
    Session *session;

    if (!op_decode(request, &interrupt, fields, ARRAY_SIZE(fields), body))
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
