/* Processes in the background and their ports: processes, process, connect. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "host/front/ops.h"

/* The reply to any of them. */
typedef union ProcessReply {
    MsgProcessesReply all;
    MsgProcessOutputReply output;
    MsgNothing nothing;
} ProcessReply;

static Query *of(GuestRequest *to_guest)
{
    return container_of(to_guest, Query, to_guest);
}

static int on_refused(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r == 0)
        query_fail(to_guest, &why);
    return r;
}

/* ---- processes and process: what is asked about them goes to the supervisor, and its answer to the client
 * ---- */

static int on_reply(Query *query, const Message *message, Problem *problem)
{
    const Schema *schema = query->reply;
    ProcessReply said;
    int r = schema_decode(&said, schema, &message->body, problem);

    if (r == 0)
        request_reply_with(query_finish(query), schema, &said);
    return r;
}

static int on_message(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_REPLY:
        return on_reply(of(to_guest), message, problem);
    case MSG_ERROR:
        return on_refused(to_guest, message, problem);
    default:
        return query_unexpected(message, problem);
    }
}

static const GuestRequestOps process_ops = {.message = on_message, .fail = query_fail};

static void begin(Query *query, const Session *session, const Schema *reply)
{
    if (!query)
        return;
    query->reply = reply;
    query_begin(query, session,
                "too much is asked about processes of this session at once; wait for answers");
}

static void handle_process(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session;
    MsgProcess said;
    bool waits;

    session = op_decode_session(front, request, &said, MsgProcess, body);
    if (!session)
        return;
    waits = said.ask.has_output || said.ask.has_send;
    begin(query_new(sizeof(Query), &process_ops, waits ? LANE_PROCESS : LANE_SHORT, MSG_PROCESS,
                    SCHEMA(MsgProcessAsk), &said.ask, request),
          session, said.ask.has_output ? SCHEMA(MsgProcessOutputReply) : SCHEMA(MsgNothing));
}

static void handle_processes(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);

    if (session)
        begin(query_new(sizeof(Query), &process_ops, LANE_SHORT, MSG_PROCESSES, SCHEMA(MsgNothing),
                        &(MsgNothing){0}, request),
              session, SCHEMA(MsgProcessesReply));
}

const Op op_process = {.kind = MSG_PROCESS, .handle = handle_process};
const Op op_processes = {.kind = MSG_PROCESSES, .handle = handle_processes};

/* ---- connect: a connection to a port of the sandbox's loopback. The supervisor makes it and passes it on;
 * from then on it is the client's, and nothing of it goes through this process ---- */

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

static int on_connected(Query *query, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    _cleanup_(closep) int fd = guest_take_passed(query->to_guest.sandbox->guest);

    if (fd < 0) {
        problem_set(&why, ERR_INTERNAL, "the engine of this session cannot pass connections on");
        query_fail(&query->to_guest, &why);
        return 0;
    }
    if (!is_tcp(fd))
        return problem_set(problem, ERR_BAD_REQUEST, "what it passes is no connection");
    request_answer_passing(query_finish(query), MsgNothing, &(MsgNothing){0}, fd);
    return 0;
}

static int on_connect_message(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_REPLY:
        return on_connected(of(to_guest), problem);
    case MSG_ERROR:
        return on_refused(to_guest, message, problem);
    default:
        return query_unexpected(message, problem);
    }
}

static const GuestRequestOps connect_ops = {.message = on_connect_message, .fail = query_fail};

static void handle_connect(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session;
    MsgConnect said;
    Query *query;

    if (!op_decode(request, &said, MsgConnect, body))
        return;
    if (!request_is_local(request, "a connection to a port of a session is passed on by the kernel"))
        return;
    session = op_session(front, request, said.session, said.instance);
    if (!session)
        return;
    query = query_new(sizeof(*query), &connect_ops, LANE_PROCESS, MSG_CONNECT, SCHEMA(MsgConnectOrder),
                      &said.order, request);
    if (query)
        query_begin(query, session,
                    "too many connections are being made in this session at once; wait for some of them");
}

const Op op_connect = {.kind = MSG_CONNECT, .handle = handle_connect};
