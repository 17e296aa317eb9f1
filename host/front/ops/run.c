#include <errno.h>
#include <math.h>
#include <string.h>

#include "host/front/from_template.h"
#include "host/front/ops.h"

typedef struct RunRequest {
    MsgRun said;
    AskMode ask_mode;
} RunRequest;

/* The same run_id again: join the call or get its record. */
static void join(Call *call, Request *request, const RunRequest *run)
{
    if (call_is_same(call, run->said.code))
        call_join(call, request, run->said.stream, run->ask_mode);
    else
        request_fail_text(request, ERR_BAD_REQUEST,
                          "run_id %s was already used for other code; use a new one for each call",
                          call->run_id);
}

static void queue(const Front *front, Session *session, Request *request, const RunRequest *run,
                  const char *run_id)
{
    double timeout = isnan(run->said.timeout) ? session->sandbox->options.timeout : run->said.timeout;
    Problem problem = PROBLEM_NULL;
    Call *call = call_new(front->calls, &call_turn_ops, session, run_id, run->said.code, timeout);

    if (!call) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        if (session->sandbox->ephemeral)
            sandbox_close(session->sandbox, "out of memory");
        return;
    }
    call->rolls_back = text_equal(run->said.on_error, "rollback");
    call_join(call, request, run->said.stream, run->ask_mode);
    if (call_queue(call, &problem) < 0)
        call_fail(call, &problem);
}

/* A clean container for this call alone. Its name cannot be one of a user's. */
static int start_ephemeral(Session **ret, SessionOptions *options, Front *front, uid_t user,
                           const char *run_id, const MsgOptions *given, const FromTemplate *from,
                           Problem *problem)
{
    char name[LIMIT_SESSION_NAME + 1];
    const SandboxHolder holder = {.user = user, .name = name, .output_id = run_id};
    int r;

    snprintf(name, sizeof(name), "~%s", run_id);
    r = session_options_settle(options, given, front->options, problem);
    if (r < 0)
        return r;
    return session_start(ret, front->sessions, &holder, from->template, options, problem);
}

static void run_ephemeral(Front *front, Request *request, const RunRequest *run, const char *run_id,
                          const msgpack_object_map *body)
{
    MsgOptions given = run->said.options;
    SessionOptions options = {0};
    Problem problem = PROBLEM_NULL;
    FromTemplate from;
    Session *session = NULL;
    int r;

    if (!run->said.has_options)
        body_clear(&given, MsgOptions);
    if (!given.checkpoint.data)
        given.checkpoint = (Text){"off", 3}; /* there is no later call that would go on from one */
    if (from_template_find(&from, front, request, &given)) {
        r = start_ephemeral(&session, &options, front, request->user, run_id, &given, &from, &problem);
        if (session)
            queue(front, session, request, run, run_id);
        else if (r == -EAGAIN)
            from_template_wait(front, request, MSG_RUN, body, &from, &options, true);
        else
            request_fail(request, &problem);
    }
    session_options_deinit(&options);
    from_template_deinit(&from);
}

static int check(RunRequest *run, char *ret_run_id, Problem *problem)
{
    if (op_check_call(run->said.run_id, run->said.timeout, ret_run_id, problem) < 0)
        return -EPROTO;
    run->ask_mode = ask_mode_parse(run->said.asks);
    if (run->said.session.data && run->said.has_options)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "options are only for calls without a session; a session has the options it was opened with");
    return 0;
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    char *data _cleanup_(freep) = NULL;
    RunRequest run;
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Session *session;
    Call *call;

    if (!op_decode(request, &run.said, MsgRun, body))
        return;
    if (check(&run, run_id, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    call = call_find(front->calls, request->user, run_id);
    if (call) {
        join(call, request, &run);
        return;
    }
    if (run.said.has_options && !op_find_data(front, request, &run.said.options, &data))
        return;
    if (!run.said.session.data) {
        run_ephemeral(front, request, &run, run_id, body);
        return;
    }
    session = op_session(front, request, run.said.session, run.said.instance);
    if (session)
        queue(front, session, request, &run, run_id);
}

const Op op_run = {.kind = MSG_RUN, .handle = handle};
