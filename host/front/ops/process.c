/* processes and process: what is asked about them goes to the supervisor, and its answer to the client. */
#include <errno.h>

#include "host/front/ops.h"
#include "host/sandbox/errand.h"

typedef struct ProcessErrand {
    Errand errand;
    const Schema *reply;
    Request *request;
} ProcessErrand;

/* The reply to any of them. */
typedef union ProcessReply {
    MsgProcessesReply all;
    MsgProcessOutputReply output;
    MsgNothing nothing;
} ProcessReply;

static ProcessErrand *of(Errand *errand)
{
    return container_of(errand, ProcessErrand, errand);
}

/* Takes the request out of an errand that is over. */
static Request *finish(ProcessErrand *process)
{
    Request *request = process->request;

    errand_over(&process->errand);
    free(process);
    return request;
}

static void failed(Errand *errand, const Problem *problem)
{
    request_fail(finish(of(errand)), problem);
}

static int on_reply(ProcessErrand *process, const Message *message, Problem *problem)
{
    const Schema *schema = process->reply;
    ProcessReply said;
    int r = schema_decode(&said, schema, &message->body, problem);

    if (r == 0)
        request_reply_with(finish(process), schema, &said);
    return r;
}

static int on_refused(Errand *errand, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    failed(errand, &why);
    return 0;
}

static int answer(Errand *errand, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_REPLY:
        return on_reply(of(errand), message, problem);
    case MSG_ERROR:
        return on_refused(errand, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
    }
}

static const ErrandOps errand_ops = {.answer = answer, .failed = failed};

static ProcessErrand *errand_new(MessageKind kind, const Schema *reply, const Schema *schema,
                                 const void *body)
{
    ProcessErrand *process = calloc(1, sizeof(*process));

    if (!process)
        return NULL;
    process->errand.ops = &errand_ops;
    process->errand.kind = kind;
    process->reply = reply;
    if (schema_append(&process->errand.body, schema, body) == 0)
        return process;
    free(process);
    return NULL;
}

/* The errand is taken; NULL: there was no memory for it. */
static void begin(Request *request, const Session *session, ProcessErrand *process)
{
    if (!process) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    process->request = request;
    if (errand_begin(&process->errand, session->sandbox) == 0)
        return;
    buf_deinit(&process->errand.body);
    free(process);
    request_fail_text(request, ERR_BUSY,
                      "too much is asked about processes of this session at once; wait for answers");
}

static void handle_process(Front *front, Request *request, const msgpack_object_map *body)
{
    ProcessErrand *process;
    Session *session;
    MsgProcess said;

    if (!op_decode(request, &said, MsgProcess, body))
        return;
    session = op_session(front, request, said.session, said.instance);
    if (!session)
        return;
    process =
        errand_new(MSG_PROCESS, said.ask.has_output ? SCHEMA(MsgProcessOutputReply) : SCHEMA(MsgNothing),
                   SCHEMA(MsgProcessAsk), &said.ask);
    if (process && (said.ask.has_output || said.ask.has_send))
        process->errand.lane = ERRAND_PROCESS;
    begin(request, session, process);
}

static void handle_processes(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);

    if (session)
        begin(request, session,
              errand_new(MSG_PROCESSES, SCHEMA(MsgProcessesReply), SCHEMA(MsgNothing), &(MsgNothing){0}));
}

const Op op_process = {.kind = MSG_PROCESS, .handle = handle_process};
const Op op_processes = {.kind = MSG_PROCESSES, .handle = handle_processes};
