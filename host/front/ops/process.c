/* Processes in the background and their ports: processes, process, connect. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "host/front/ops.h"
#include "host/sandbox/errand.h"

/* ---- processes and process ----
 *
 * processes and process: what is asked about them goes to the supervisor, and its answer to the client. */

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

static ProcessErrand *of_process(Errand *errand)
{
    return container_of(errand, ProcessErrand, errand);
}

/* Takes the request out of an errand that is over. */
static Request *finish_process(ProcessErrand *process)
{
    Request *request = process->request;

    errand_over(&process->errand);
    free(process);
    return request;
}

static void process_failed(Errand *errand, const Problem *problem)
{
    request_fail(finish_process(of_process(errand)), problem);
}

static int on_process_reply(ProcessErrand *process, const Message *message, Problem *problem)
{
    const Schema *schema = process->reply;
    ProcessReply said;
    int r = schema_decode(&said, schema, &message->body, problem);

    if (r == 0)
        request_reply_with(finish_process(process), schema, &said);
    return r;
}

static int on_process_refused(Errand *errand, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    process_failed(errand, &why);
    return 0;
}

static int answer_process(Errand *errand, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_REPLY:
        return on_process_reply(of_process(errand), message, problem);
    case MSG_ERROR:
        return on_process_refused(errand, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
    }
}

static const ErrandOps process_errand_ops = {.answer = answer_process, .failed = process_failed};

static ProcessErrand *errand_new(MessageKind kind, const Schema *reply, const Schema *schema,
                                 const void *body)
{
    ProcessErrand *process = calloc(1, sizeof(*process));

    if (!process)
        return NULL;
    process->errand.ops = &process_errand_ops;
    process->errand.kind = kind;
    process->reply = reply;
    if (schema_append(&process->errand.body, schema, body) == 0)
        return process;
    free(process);
    return NULL;
}

/* The errand is taken; NULL: there was no memory for it. */
static void begin_process(Request *request, const Session *session, ProcessErrand *process)
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
    begin_process(request, session, process);
}

static void handle_processes(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);

    if (session)
        begin_process(
            request, session,
            errand_new(MSG_PROCESSES, SCHEMA(MsgProcessesReply), SCHEMA(MsgNothing), &(MsgNothing){0}));
}

const Op op_process = {.kind = MSG_PROCESS, .handle = handle_process};
const Op op_processes = {.kind = MSG_PROCESSES, .handle = handle_processes};

/* ---- connect ----
 *
 * connect: a connection to a port of the sandbox's loopback. The supervisor makes it and passes it on; from
 * then on it is the client's, and nothing of it goes through this process. */

typedef struct ConnectErrand {
    Errand errand;
    Request *request;
} ConnectErrand;

static ConnectErrand *of_connect(Errand *errand)
{
    return container_of(errand, ConnectErrand, errand);
}

/* Takes the request out of an errand that is over. */
static Request *finish_connect(ConnectErrand *connecting)
{
    Request *request = connecting->request;

    errand_over(&connecting->errand);
    free(connecting);
    return request;
}

static void connect_failed(Errand *errand, const Problem *problem)
{
    request_fail(finish_connect(of_connect(errand)), problem);
}

static int option_of(int fd, int name)
{
    int value;
    socklen_t size = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -errno : value;
}

/* A client is given nothing else, whatever has been passed. */
static bool is_tcp(int fd)
{
    int domain = option_of(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6) && option_of(fd, SO_TYPE) == SOCK_STREAM &&
           option_of(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

static int on_connect_reply(ConnectErrand *connecting, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    _cleanup_(closep) int fd = guest_take_passed(connecting->errand.sandbox->guest);

    if (fd < 0) {
        problem_set(&why, ERR_INTERNAL, "the engine of this session cannot pass connections on");
        connect_failed(&connecting->errand, &why);
        return 0;
    }
    if (!is_tcp(fd))
        return problem_set(problem, ERR_BAD_REQUEST, "what it passes is no connection");
    request_answer_passing(finish_connect(connecting), MsgNothing, &(MsgNothing){0}, fd);
    return 0;
}

static int on_connect_refused(Errand *errand, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    connect_failed(errand, &why);
    return 0;
}

static int answer_connect(Errand *errand, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_REPLY:
        return on_connect_reply(of_connect(errand), problem);
    case MSG_ERROR:
        return on_connect_refused(errand, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
    }
}

static const ErrandOps connect_errand_ops = {.answer = answer_connect, .failed = connect_failed};

static void handle_connect(Front *front, Request *request, const msgpack_object_map *body)
{
    ConnectErrand *connecting;
    Session *session;
    MsgConnect said;

    if (!op_decode(request, &said, MsgConnect, body))
        return;
    if (!request_is_local(request, "a connection to a port of a session is passed on by the kernel"))
        return;
    session = op_session(front, request, said.session, said.instance);
    if (!session)
        return;
    connecting = calloc(1, sizeof(*connecting));
    if (!connecting || body_encode(&connecting->errand.body, MsgConnectOrder, &said.order) < 0) {
        free(connecting);
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    connecting->request = request;
    connecting->errand.ops = &connect_errand_ops;
    connecting->errand.kind = MSG_CONNECT;
    connecting->errand.lane = ERRAND_PROCESS;
    if (errand_begin(&connecting->errand, session->sandbox) == 0)
        return;
    buf_deinit(&connecting->errand.body);
    free(connecting);
    request_fail_text(request, ERR_BUSY,
                      "too many connections are being made in this session at once; wait for some of them");
}

const Op op_connect = {.kind = MSG_CONNECT, .handle = handle_connect};
