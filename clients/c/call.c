/* A call: ask, deal with its events, wait for its answer; connect before and again in between. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "clients/c/client.h"
#include "clients/c/launch.h"
#include "proto/base/clock.h"

#define PAUSE_FIRST (5 * NSEC_PER_MSEC)
#define PAUSE_MAX   (500 * NSEC_PER_MSEC)
#define ASK_MAX     5 /* a controller that this very request brings down is not asked for ever */

/* Makes the controller's error ours. An error this library has no name for keeps its own in the text. */
static int take_error(LimpetClient *client, const Message *message)
{
    Problem *problem = &client->problem;
    MsgError body;
    int r = reply_decode(&body, MsgError, &message->body, problem);

    if (r < 0)
        return r;
    if (body.number == 0 || body.number > INT32_MAX)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH, "the controller answered with error number %llu",
                           (unsigned long long)body.number);
    problem_set(problem, (ErrorCode)body.number, "%.*s",
                (int)MIN(body.message.size, (size_t)PROBLEM_TEXT_MAX), body.message.data);
    if (!text_equal(body.name, error_name(problem->code)))
        problem_prefix(problem, "%.*s", (int)MIN(body.name.size, (size_t)64), body.name.data);
    free(client->traceback);
    client->traceback = body.traceback.data ? text_dup(body.traceback) : NULL;
    snprintf(client->file_error, sizeof(client->file_error), "%.*s",
             (int)MIN(body.symbol.size, sizeof(client->file_error)),
             body.symbol.data ? body.symbol.data : "");
    return 0;
}

/* 1: the call is answered, with *ret or with the client's problem. 0: it goes on. */
static int dispatch(ClientCall *call, const ZmtpFrame *frame, Reply *ret)
{
    LimpetClient *client = call->client;
    _cleanup_(message_deinit) Message message = MESSAGE_NULL;
    int r = message_decode(&message, frame->data, frame->size, &client->problem);

    if (r < 0) {
        client->problem.code = ERR_PROTOCOL_MISMATCH;
        problem_prefix(&client->problem, "the controller sent an invalid message");
        return r;
    }
    if (message.id != call->id)
        return 0; /* belongs to an earlier call, or to an interrupt */
    if (message.kind == MSG_ERROR) {
        r = take_error(client, &message);
        return r < 0 ? r : 1;
    }
    if (message.kind == MSG_REPLY) {
        r = connection_take_frame(&client->connection, &ret->bytes);
        if (r < 0)
            return r;
        ret->message = message;
        message = MESSAGE_NULL;
        return 1;
    }
    if ((message.kind == MSG_OUTPUT || message.kind == MSG_DISPLAY || message.kind == MSG_ASK) &&
        call->on_event)
        return call->on_event(call, &message);
    return problem_set(&client->problem, ERR_PROTOCOL_MISMATCH,
                       "the controller sent '%s' instead of an answer", message_name(message.kind));
}

int client_say_with(LimpetClient *client, MessageKind kind, uint64_t id, const Schema *schema,
                    const void *body)
{
    _cleanup_(buf_deinit) Buf payload = BUF_NULL;
    int r = message_append(&payload, kind, id, schema, body);

    return r < 0 ? r : connection_send(&client->connection, &payload);
}

static int send_interrupt(ClientCall *call)
{
    const MsgInterrupt interrupt = {.run_id = text_of(call->run_id)};

    return client_say(call->client, MSG_INTERRUPT, ++call->client->last_id, MsgInterrupt, &interrupt);
}

int client_credit(LimpetClient *client, const ClientCall *call, uint64_t count)
{
    return client_say(client, MSG_CREDIT, call->id, MsgCredit, &(MsgCredit){.count = count});
}

/* Returns whether limpet_interrupt_call() was called since the last time. */
static bool drain_wake(const LimpetClient *client)
{
    eventfd_t count;

    return eventfd_read(client->wake_fd, &count) == 0;
}

int client_interrupt_pending(ClientCall *call)
{
    int r;

    if (!call->run_id || !drain_wake(call->client))
        return 0;
    call->interrupted = true;
    r = send_interrupt(call);
    return r < 0 ? r : 1;
}

/* Asks and waits on the connection there is. As dispatch(), or an error of connection_receive(). */
static int exchange(ClientCall *call, const Buf *request, uint64_t deadline, Reply *ret)
{
    LimpetClient *client = call->client;
    int wake_fd = call->run_id ? client->wake_fd : -1;
    int r = connection_send(&client->connection, request);

    if (!r && call->interrupted)
        r = send_interrupt(call);
    while (!r) {
        ZmtpFrame frame;

        r = connection_receive(&client->connection, wake_fd, deadline, &frame);
        if (!r) {
            r = dispatch(call, &frame, ret);
        } else if (r == -EINTR) {
            r = MIN(client_interrupt_pending(call), 0);
        }
    }
    return r;
}

static int refused_remotely(LimpetClient *client, int r)
{
    const char *why =
        r == -EACCES ? "it does not let this key in: the public key is not in its authorized_keys"
        : r == -ENOSYS
            ? "it is reached with libzmq, which is not installed (Debian: libzmq5)"
            : "it ended the handshake: its key is another one than the server key that is expected, "
              "or it takes no connections";

    return problem_set(&client->problem, ERR_UNAVAILABLE, "the controller at %s cannot be reached: %s",
                       client->address.path, why);
}

/* Closes a connection that cannot be used any more, and says why unless that is known already. */
static int connection_lost(LimpetClient *client, int r)
{
    Problem *problem = &client->problem;

    connection_close(&client->connection);
    if (problem->code)
        return -EPROTO;
    switch (r) {
    case -ECONNRESET:
        return problem_set(problem, ERR_UNAVAILABLE, "the controller at %s went away before it answered",
                           client->address.path);
    case -ENOENT:
    case -ECONNREFUSED:
        return problem_set(problem, ERR_UNAVAILABLE, "no controller listens at %s", client->address.path);
    case -ETIMEDOUT:
        return problem_set(problem, ERR_UNAVAILABLE, "the process that listens at %s does not answer",
                           client->address.path);
    case -EPROTO:
    case -EMSGSIZE:
        if (client->address.dialled)
            return problem_set(
                problem, ERR_PROTOCOL_MISMATCH,
                "what the command of %s prints is no connection to a Limpet controller; nothing else "
                "may print there, such as a profile of the shell",
                client->address.path);
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the process that listens at %s is not a Limpet controller", client->address.path);
    case -EACCES:
    case -EKEYREJECTED:
    case -ENOSYS:
        return client->address.remote
                   ? refused_remotely(client, r)
                   : problem_set(problem, ERR_UNAVAILABLE, "%s: %s", client->address.path, strerror(-r));
    case -ENOMEM:
        return r;
    default:
        return problem_set(problem, ERR_UNAVAILABLE, "%s: %s", client->address.path, strerror(-r));
    }
}

static int take_hello(LimpetClient *client, Reply *reply)
{
    MsgHelloReply hello;
    Arena arena = {.zone = reply->message.zone};
    LimpetController controller;
    int r = reply_decode(&hello, MsgHelloReply, &reply->message.body, &client->problem);

    if (r < 0)
        return r;
    if (hello.protocol != PROTOCOL_VERSION)
        return problem_set(
            &client->problem, ERR_PROTOCOL_MISMATCH,
            "the controller speaks protocol %llu, this client speaks %d; upgrade the older one",
            (unsigned long long)hello.protocol, PROTOCOL_VERSION);
    controller = (LimpetController){
        .peer = arena_text(&arena, hello.peer),
        .pid = (int64_t)hello.pid,
        .engine = arena_text(&arena, hello.engine),
        .image = arena_text(&arena, hello.image),
        .warning = arena_text(&arena, hello.warning),
    };
    texts_read(&controller.features, &controller.n_features, &hello.features, &arena);
    if (arena.failed)
        return -ENOMEM;
    reply_deinit(&client->hello);
    client->hello = *reply;
    client->controller = controller;
    *reply = REPLY_NULL;
    return 0;
}

static int say_hello(LimpetClient *client, uint64_t deadline)
{
    _cleanup_(buf_deinit) Buf request = BUF_NULL;
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgHello hello = {.protocol = PROTOCOL_VERSION, .peer = text_of("limpet-c/" LIMPET_VERSION)};
    ClientCall call = {.client = client, .id = ++client->last_id};
    int r = message_encode(&request, MSG_HELLO, call.id, MsgHello, &hello);

    if (!r)
        r = exchange(&call, &request, deadline, &reply);
    if (r < 0)
        return r;
    return client->problem.code ? -EPROTO : take_hello(client, &reply);
}

static int open_connection(LimpetClient *client, uint64_t deadline)
{
    const Address *address = &client->address;

    if (address->dialled)
        return connection_open_dialled(&client->connection, address->path, deadline, &client->problem);
    if (address->remote)
        return connection_open_remote(&client->connection, address->path, &address->keys, deadline);
    return connection_open(&client->connection, address->path, deadline);
}

/* Why a command has not become a connection: nobody listens, as far as it is known. */
static int explain(LimpetClient *client, int r)
{
    if ((r != -ECONNRESET && r != -ETIMEDOUT) || client->connection.fd < 0)
        return r;
    dial_explain(&client->connection.command, client->address.path, r == -ETIMEDOUT, &client->problem);
    return -ECONNREFUSED;
}

static int connect_once(LimpetClient *client, uint64_t deadline)
{
    int r;

    client->problem = PROBLEM_NULL;
    r = address_check(&client->address, &client->problem);
    if (client->address.dialled)
        deadline = MIN(deadline, clock_now() + DIAL_SECONDS * NSEC_PER_SEC);
    if (!r)
        r = open_connection(client, deadline);
    if (!r)
        r = say_hello(client, deadline);
    if (r < 0 && client->address.dialled)
        r = explain(client, r);
    if (r < 0)
        connection_close(&client->connection);
    return r;
}

/* A controller that is going away may still have accepted us. */
static bool nobody_listens(int r)
{
    return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET;
}

/* Root's controller, where the user may use it; otherwise `r`, which is why there is none of the user's own.
 */
static int connect_to_roots(LimpetClient *client, int r, uint64_t deadline)
{
    Address own = client->address;

    if (address_init_roots(&client->address) < 0 || connect_once(client, deadline) < 0) {
        address_deinit(&client->address);
        client->address = own;
        client->problem = PROBLEM_NULL;
        return r;
    }
    address_deinit(&own);
    return 0;
}

/* The one that is found stays the one, as the sessions are there. */
static int connect_to_any(LimpetClient *client, uint64_t deadline)
{
    int r = connect_once(client, deadline);

    if (nobody_listens(r) && client->address.or_roots)
        r = connect_to_roots(client, r, deadline);
    if (r == 0)
        client->address.or_roots = false;
    return r;
}

static bool autostart_allowed(const LimpetClient *client)
{
    const char *setting = getenv("LIMPET_AUTOSTART");

    return client->autostart && !(setting && strcmp(setting, "0") == 0);
}

/* Tries again with growing pauses: nothing tells when a socket that another process will make is listened on.
 */
static int connect_patiently(LimpetClient *client, bool autostart, bool wait)
{
    uint64_t deadline = clock_now() + client->reconnect_timeout;
    uint64_t pause = PAUSE_FIRST;
    int r;

    for (;;) {
        r = connect_to_any(client, deadline);
        if (nobody_listens(r) && autostart && !client->address.is_roots) {
            r = launch_controller(client->address.path, deadline, &client->problem);
            if (!r)
                r = connect_once(client, deadline);
        }
        if (!nobody_listens(r) || !(autostart || wait) || clock_now() + pause >= deadline)
            return r;
        nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
        pause = MIN(pause * 2, PAUSE_MAX);
    }
}

int client_connect(LimpetClient *client, bool existing_only)
{
    bool autostart = !existing_only && !client->address.remote && autostart_allowed(client);
    int r;

    if (!client->address.path)
        return problem_set(&client->problem, ERR_BAD_REQUEST,
                           "the client is not connected; call limpet_connect() first");
    if (!connection_is_stale(&client->connection))
        return 0;
    connection_close(&client->connection);
    r = connect_patiently(client, autostart, !existing_only && client->was_connected);
    if (r < 0)
        return connection_lost(client, r);
    client->was_connected = true;
    return 0;
}

void client_begin_with(LimpetClient *client, ClientCall *call, MessageKind kind, const Schema *schema,
                       const void *body)
{
    client->problem = PROBLEM_NULL;
    buf_clear(&client->request);
    call->client = client;
    call->id = ++client->last_id;
    call->error = message_append(&client->request, kind, call->id, schema, body);
}

int client_call(LimpetClient *client, ClientCall *call, Reply *ret)
{
    Reply reply = REPLY_NULL;
    int r = call->error;

    if (r == -EINVAL)
        return problem_set(&client->problem, ERR_BAD_REQUEST, "a required argument is NULL or not a number");
    if (r < 0)
        return r;
    for (int asked = 1;; asked++) {
        r = client_connect(client, call->existing_only);
        if (r < 0)
            return r;
        r = exchange(call, &client->request, 0, &reply);
        if (r != -ECONNRESET || !call->repeatable || asked == ASK_MAX)
            break;
        call->rejoined = true;
    }
    if (call->run_id)
        drain_wake(client);
    if (r < 0)
        return connection_lost(client, r);
    if (client->problem.code)
        return -EPROTO;
    *ret = reply;
    return 0;
}

int client_ask_descriptor_with(LimpetClient *client, ClientCall *call, MessageKind kind, const Schema *schema,
                               const void *body, int *ret_fd)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    _cleanup_(closep) int earlier = connection_take_passed(&client->connection);
    int r;

    client_begin_with(client, call, kind, schema, body);
    r = client_call(client, call, &reply);
    if (!r)
        *ret_fd = connection_take_passed(&client->connection);
    return r;
}
