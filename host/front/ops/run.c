/* Calls: run, exec, start, result, interrupt. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "host/front/from_template.h"
#include "host/front/ops.h"
#include "host/link/envelope.h"

/* ---- what they share ---- */

/* Checks the fields of every call: `run_id`, which is copied, and the time it may take (NAN: not given). 0,
 * or -EPROTO with the problem set. */
static int check_call(Text run_id, double timeout, char ret_run_id[static LIMIT_RUN_ID + 1], Problem *problem)
{
    if (!run_id_valid(run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "run_id must be %u lower-case hexadecimal digits",
                           LIMIT_RUN_ID);
    memcpy(ret_run_id, run_id.data, LIMIT_RUN_ID);
    ret_run_id[LIMIT_RUN_ID] = '\0';
    if (!isnan(timeout) && !(timeout > 0 && timeout <= TIMEOUT_MAXIMUM))
        return problem_set(problem, ERR_BAD_REQUEST, "timeout must be above 0 and at most %.0f seconds",
                           TIMEOUT_MAXIMUM);
    return 0;
}

static size_t size_of(const msgpack_object *value)
{
    if (value->type == MSGPACK_OBJECT_STR)
        return value->via.str.size;
    return value->type == MSGPACK_OBJECT_BIN ? value->via.bin.size : 0;
}

/* Checks that the program to be run is small enough for every supervisor. 0, or -EPROTO with the problem
 * set. */
static int check_program(const MsgProgram *program, Problem *problem)
{
    const msgpack_object_array *argv = program->argv.array;
    const msgpack_object_map *env = program->env.map;
    size_t arguments = 0, variables = 0;

    for (uint32_t i = 0; argv && i < argv->size; i++)
        arguments += size_of(&argv->ptr[i]);
    for (uint32_t i = 0; env && i < env->size; i++)
        variables += size_of(&env->ptr[i].key) + size_of(&env->ptr[i].val);
    if (arguments > LIMIT_ARGV_BYTES)
        return problem_set(problem, ERR_TOO_LARGE,
                           "the items of `argv` have at most %u bytes together; put more into a file",
                           LIMIT_ARGV_BYTES);
    if (variables > LIMIT_ENV_BYTES)
        return problem_set(problem, ERR_TOO_LARGE,
                           "the variables of `env` have at most %u bytes together; put more into a file",
                           LIMIT_ENV_BYTES);
    return 0;
}

/* Checks that one more command or process may run in the session. 0, or -EPROTO with the problem set. */
static int check_beside(const Session *session, Problem *problem)
{
    if (sandbox_count_programs(session->sandbox) < LIMIT_PROCESSES)
        return 0;
    return problem_set(problem, ERR_BUSY,
                       "%u commands and processes run in the session '%s' already; end one of them first",
                       LIMIT_PROCESSES, session->name);
}

/* ---- run ---- */

typedef struct RunRequest {
    MsgRun said;
    const RequestDirectory *data;
    AskMode ask_mode;
} RunRequest;

/* The same run_id again: join the call or get its record. */
static void join_run(Call *call, Request *request, const RunRequest *run)
{
    if (call_is_same(call, run->said.code))
        call_join(call, request, run->said.stream, run->ask_mode);
    else
        request_fail_text(request, ERR_BAD_REQUEST,
                          "run_id %s was already used for other code; use a new one for each call",
                          call->run_id);
}

static void queue_run(const Front *front, Session *session, Request *request, const RunRequest *run,
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
                           const char *run_id, const MsgOptions *given, const RequestDirectory *data,
                           const FromTemplate *from, Problem *problem)
{
    char name[LIMIT_SESSION_NAME + 1];
    const SandboxAssignment assignment = {
        .user = user, .name = name, .output_id = run_id, .data = data ? &data->fd : NULL};
    int r;

    snprintf(name, sizeof(name), "~%s", run_id);
    r = session_options_settle(options, given, front->options, problem);
    if (r < 0)
        return r;
    return session_start(ret, front->sessions, &assignment, from->template, options, problem);
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
        r = start_ephemeral(&session, &options, front, request->user, run_id, &given, run->data, &from,
                            &problem);
        if (session)
            queue_run(front, session, request, run, run_id);
        else if (r == -EAGAIN)
            from_template_wait(front, request, body, &from, &options, true);
        else
            request_fail(request, &problem);
    }
    session_options_deinit(&options);
    from_template_deinit(&from);
}

static int check_run(RunRequest *run, char *ret_run_id, Problem *problem)
{
    if (check_call(run->said.run_id, run->said.timeout, ret_run_id, problem) < 0)
        return -EPROTO;
    run->ask_mode = ask_mode_parse(run->said.asks);
    if (run->said.session.data && run->said.has_options)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "options are only for calls without a session; a session has the options it was opened with");
    return 0;
}

static void handle_run(Front *front, Request *request, const msgpack_object_map *body)
{
    RunRequest run = {0};
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Session *session;
    Call *call;

    if (!op_decode(request, &run.said, MsgRun, body))
        return;
    if (check_run(&run, run_id, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    call = call_find(front->calls, request->user, run_id);
    if (call) {
        join_run(call, request, &run);
        return;
    }
    if (run.said.has_options && !op_find_data_of(front, request, body, &run.said.options, &run.data))
        return;
    if (!run.said.session.data) {
        run_ephemeral(front, request, &run, run_id, body);
        return;
    }
    session = op_session(front, request, run.said.session, run.said.instance);
    if (session)
        queue_run(front, session, request, &run, run_id);
}

const Op op_run = {.kind = MSG_RUN, .handle = handle_run};

/* ---- exec ---- */

/* The same run_id again: join the command or get its record. */
static void join_exec(Call *call, Request *request, Text program, bool stream)
{
    if (call_is_same(call, program))
        call_join(call, request, stream, ASK_NOBODY);
    else
        request_fail_text(request, ERR_BAD_REQUEST,
                          "run_id %s was used for something else; choose a new one for each call",
                          call->run_id);
}

static void begin_exec(const Front *front, Session *session, Request *request, const MsgExec *said,
                       const char *run_id, Text program)
{
    double timeout = isnan(said->timeout) ? session->sandbox->options.timeout : said->timeout;
    Problem problem = PROBLEM_NULL;
    Call *call;

    if (check_beside(session, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    call = call_new(front->calls, &command_turn_ops, session, run_id, program, timeout);
    if (!call) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call_join(call, request, said->stream, ASK_NOBODY);
    sandbox_queue(session->sandbox, &call->to_guest);
}

static void handle_exec(Front *front, Request *request, const msgpack_object_map *body)
{
    Buf program _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Session *session;
    MsgExec said;
    Call *call;

    if (!op_decode(request, &said, MsgExec, body))
        return;
    if (check_call(said.run_id, said.timeout, run_id, &problem) < 0 ||
        check_program(&said.program, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    if (body_encode(&program, MsgProgram, &said.program) < 0) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call = call_find(front->calls, request->user, run_id);
    if (call) {
        join_exec(call, request, encoded_text(&program), said.stream);
        return;
    }
    session = op_session(front, request, said.session, said.instance);
    if (session)
        begin_exec(front, session, request, &said, run_id, encoded_text(&program));
}

const Op op_exec = {.kind = MSG_EXEC, .handle = handle_exec};

/* ---- start ----
 *
 * start: a program in the background. It is the session's own: a branch that is closed leaves it alone. */

static void begin_start(const Front *front, Session *session, Request *request, const char *run_id,
                        Text launch)
{
    Problem problem = PROBLEM_NULL;
    Call *call;

    if (check_beside(session, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    call = call_new(front->calls, &process_turn_ops, session->sandbox->root, run_id, launch, TIMEOUT_MAXIMUM);
    if (!call) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call_await_start(call, request);
    sandbox_queue(session->sandbox, &call->to_guest);
}

/* The same run_id again: it is not started twice. */
static void join_start(Call *call, Request *request, Text launch)
{
    if (call_is_same(call, launch))
        call_await_start(call, request);
    else
        request_fail_text(request, ERR_BAD_REQUEST,
                          "run_id %s was used for something else; choose a new one for each process",
                          call->run_id);
}

static void handle_start(Front *front, Request *request, const msgpack_object_map *body)
{
    Buf launch _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Session *session;
    MsgStart said;
    Call *call;

    if (!op_decode(request, &said, MsgStart, body))
        return;
    if (check_call(said.run_id, NAN, run_id, &problem) < 0 ||
        check_program(&said.launch.program, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    if (body_encode(&launch, MsgLaunch, &said.launch) < 0) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    call = call_find(front->calls, request->user, run_id);
    if (call) {
        join_start(call, request, encoded_text(&launch));
        return;
    }
    session = op_session(front, request, said.session, said.instance);
    if (session)
        begin_start(front, session, request, run_id, encoded_text(&launch));
}

const Op op_start = {.kind = MSG_START, .handle = handle_start};

/* ---- result ---- */

static void handle_result(Front *front, Request *request, const msgpack_object_map *body)
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

const Op op_result = {.kind = MSG_RESULT, .handle = handle_result};

/* ---- interrupt ---- */

static void answer_interrupt(Request *request, bool interrupted)
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
        answer_interrupt(request, !call_is_over(call) && call_interrupt(call));
    else
        request_fail_text(request, ERR_NO_SUCH_RUN, "no call with run_id '%s' is running or stored", id);
}

static void handle_interrupt(Front *front, Request *request, const msgpack_object_map *body)
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
        answer_interrupt(request, running && call_interrupt(running));
}

const Op op_interrupt = {.kind = MSG_INTERRUPT, .lets_sleep = true, .handle = handle_interrupt};
