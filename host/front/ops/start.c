/* start: a program in the background. It is the session's own: a branch that is closed leaves it alone. */
#include <errno.h>
#include <math.h>

#include "host/front/ops.h"
#include "host/link/envelope.h"

static void begin(const Front *front, Session *session, Request *request, const char *run_id, Text launch)
{
    Problem problem = PROBLEM_NULL;
    Call *call;

    if (op_check_beside(session, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    call =
        call_new(front->calls, &process_turn_ops, session->sandbox->trunk, run_id, launch, TIMEOUT_MAXIMUM);
    if (!call) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call_await_start(call, request);
    sandbox_queue(session->sandbox, &call->turn);
}

/* The same run_id again: it is not started twice. */
static void join(Call *call, Request *request, Text launch)
{
    if (call_is_same(call, launch))
        call_await_start(call, request);
    else
        request_fail_text(request, ERR_BAD_REQUEST,
                          "run_id %s was used for something else; choose a new one for each process",
                          call->run_id);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Buf launch _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Session *session;
    MsgStart said;
    Call *call;

    if (!op_decode(request, &said, MsgStart, body))
        return;
    if (op_check_call(said.run_id, NAN, run_id, &problem) < 0 ||
        op_check_program(&said.launch.program, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    if (body_encode(&launch, MsgLaunch, &said.launch) < 0) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call = call_find(front->calls, request->user, run_id);
    if (call) {
        join(call, request, encoded_text(&launch));
        return;
    }
    session = op_session(front, request, said.session, said.instance);
    if (session)
        begin(front, session, request, run_id, encoded_text(&launch));
}

const Op op_start = {.kind = MSG_START, .handle = handle};
