/* connect: a connection to a port of the sandbox's loopback. The supervisor makes it and passes it on; from
 * then on it is the client's, and nothing of it goes through this process. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "host/front/ops.h"
#include "host/sandbox/errand.h"

typedef struct ConnectErrand {
    Errand errand;
    Request *request;
} ConnectErrand;

static ConnectErrand *of(Errand *errand)
{
    return container_of(errand, ConnectErrand, errand);
}

/* Takes the request out of an errand that is over. */
static Request *finish(ConnectErrand *connecting)
{
    Request *request = connecting->request;

    errand_over(&connecting->errand);
    free(connecting);
    return request;
}

static void failed(Errand *errand, const Problem *problem)
{
    request_fail(finish(of(errand)), problem);
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

static int on_reply(ConnectErrand *connecting, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    _cleanup_(closep) int fd = guest_take_passed(connecting->errand.sandbox->guest);

    if (fd < 0) {
        problem_set(&why, ERR_INTERNAL, "the engine of this session cannot pass connections on");
        failed(&connecting->errand, &why);
        return 0;
    }
    if (!is_tcp(fd))
        return problem_set(problem, ERR_BAD_REQUEST, "what it passes is no connection");
    request_answer_passing(finish(connecting), MsgNothing, &(MsgNothing){0}, fd);
    return 0;
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
        return on_reply(of(errand), problem);
    case MSG_ERROR:
        return on_refused(errand, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
    }
}

static const ErrandOps errand_ops = {.answer = answer, .failed = failed};

static void handle(Front *front, Request *request, const msgpack_object_map *body)
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
    connecting->errand.ops = &errand_ops;
    connecting->errand.kind = MSG_CONNECT;
    connecting->errand.lane = ERRAND_PROCESS;
    if (errand_begin(&connecting->errand, session->sandbox) == 0)
        return;
    buf_deinit(&connecting->errand.body);
    free(connecting);
    request_fail_text(request, ERR_BUSY,
                      "too many connections are being made in this session at once; wait for some of them");
}

const Op op_connect = {.kind = MSG_CONNECT, .handle = handle};
