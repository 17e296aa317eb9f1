#include <math.h>

#include "host/front/ops.h"
#include "host/link/envelope.h"

/* The same run_id again: join the command or get its record. */
static void join(Call *call, Request *request, Text program, bool stream)
{
    if (call_is_same(call, program))
        call_join(call, request, stream, ASK_NOBODY);
    else
        request_fail_text(request, ERR_BAD_REQUEST,
                          "run_id %s was used for something else; choose a new one for each call",
                          call->run_id);
}

static void begin(const Front *front, Session *session, Request *request, const MsgExec *said,
                  const char *run_id, Text program)
{
    double timeout = isnan(said->timeout) ? session->sandbox->options.timeout : said->timeout;
    Problem problem = PROBLEM_NULL;
    Call *call;

    if (op_check_beside(session, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    call = call_new(front->calls, &command_turn_ops, session, run_id, program, timeout);
    if (!call) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call_join(call, request, said->stream, ASK_NOBODY);
    sandbox_queue(session->sandbox, &call->turn);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Buf program _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Session *session;
    MsgExec said;
    Call *call;

    if (!op_decode(request, &said, MsgExec, body))
        return;
    if (op_check_call(said.run_id, said.timeout, run_id, &problem) < 0 ||
        op_check_program(&said.program, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    if (body_encode(&program, MsgProgram, &said.program) < 0) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call = call_find(front->calls, request->user, run_id);
    if (call) {
        join(call, request, encoded_text(&program), said.stream);
        return;
    }
    session = op_session(front, request, said.session, said.instance);
    if (session)
        begin(front, session, request, &said, run_id, encoded_text(&program));
}

const Op op_exec = {.kind = MSG_EXEC, .handle = handle};
