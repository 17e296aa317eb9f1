#include "host/link/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "host/link/listener.h"
#include "host/link/envelope.h"
#include "proto/base/log.h"

int request_new(Request **ret, Listener *listener, Peer peer, uid_t user, uint64_t id, size_t bytes)
{
    Request *request = calloc(1, sizeof(*request));
    UserCharge *charge = listener_charge(listener, peer);
    int r = request && charge ? charge_request(charge, bytes) : -ENOMEM;

    if (r < 0) {
        free(request);
        return r;
    }
    list_init(&request->link);
    list_init(&request->directories);
    request->listener = listener;
    request->peer = peer;
    request->user = user;
    request->id = id;
    request->charge = charge;
    request->bytes = bytes;
    *ret = request;
    return 0;
}

bool request_is_local(Request *request, const char *what)
{
    if (!request->remote)
        return true;
    request_fail_text(request, ERR_DENIED, "%s: not for a client on another machine", what);
    return false;
}

static void directory_free(RequestDirectory *directory)
{
    list_remove(&directory->link);
    close_fd(&directory->fd);
    free(directory->named);
    free(directory->path);
    free(directory);
}

void request_close_directories(Request *request)
{
    List *link;

    while ((link = list_first(&request->directories)))
        directory_free(list_entry(link, RequestDirectory, link));
}

void request_forget(Request *request)
{
    request_close_directories(request);
    loop_timer_cancel(&request->timer);
    list_remove(&request->link);
    charge_request_over(request->charge, request->bytes);
    buf_deinit(&request->message);
    free(request);
}

static int log_unsent(MessageKind kind, int r)
{
    if (r < 0)
        log_debug("message not sent", "kind=%s error=%d", message_name(kind), -r);
    return r;
}

static int send_body(Listener *listener, Peer peer, MessageKind kind, uint64_t id, Text body)
{
    PeerFrame frame;
    int r = listener_begin(listener, peer, &frame);

    if (r == 0)
        r = listener_end(&frame, envelope_write(frame.out, kind, id, body));
    return log_unsent(kind, r);
}

/* A client that so much waits for that its answer has no room is dropped: it learns that it has to ask again,
 * where it would wait in vain. */
static void drop_if_unsent(Listener *listener, Peer peer, int r)
{
    if (r < 0)
        listener_drop(listener, peer);
}

static void send_answer(Listener *listener, Peer peer, MessageKind kind, uint64_t id, const Buf *body)
{
    drop_if_unsent(listener, peer, send_body(listener, peer, kind, id, encoded_text(body)));
}

void request_reply(Request *request, const Buf *body)
{
    if (body->size == 0) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    send_answer(request->listener, request->peer, MSG_REPLY, request->id, body);
    request_forget(request);
}

void request_reply_empty(Request *request)
{
    request_answer(request, MsgNothing, &(MsgNothing){0});
}

/* Written in place: a piece of a file is a megabyte. */
void request_reply_with(Request *request, const Schema *schema, const void *body)
{
    PeerFrame frame;
    int r = listener_begin(request->listener, request->peer, &frame);

    if (r == 0)
        r = listener_end(&frame, message_append(frame.out, MSG_REPLY, request->id, schema, body));
    if (r == -EINVAL || r == -ENOMEM) {
        request_fail_text(request, ERR_INTERNAL, "cannot write the answer: %s", strerror(-r));
        return;
    }
    drop_if_unsent(request->listener, request->peer, log_unsent(MSG_REPLY, r));
    request_forget(request);
}

void request_reply_passing(Request *request, const Schema *schema, const void *body, int fd)
{
    Listener *listener = request->listener;
    Peer peer = request->peer;
    /* Beside an earlier answer it would be taken for that one's. */
    bool alone = fd >= 0 && listener_flush(listener, peer);
    int r;

    request_reply_with(request, schema, body);
    r = alone ? listener_pass(listener, peer, fd, false) : 0;
    if (r < 0)
        log_debug("descriptor not passed", "error=%d", -r);
}

/* Sends an error; `error` holds what it carries besides the problem. */
static void send_problem(Listener *listener, Peer peer, uint64_t id, const Problem *problem, MsgError error)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;

    error.number = problem->code;
    error.name = text_of(error_name(problem->code));
    error.message = text_of(problem->text);
    if (body_encode(&body, MsgError, &error) == 0)
        send_answer(listener, peer, MSG_ERROR, id, &body);
}

static void fail_with(Request *request, const Problem *problem, MsgError error)
{
    send_problem(request->listener, request->peer, request->id, problem, error);
    request_forget(request);
}

void request_fail(Request *request, const Problem *problem)
{
    fail_with(request, problem, (MsgError){0});
}

void request_fail_options(Request *request, const Problem *problem, const char *const *names, size_t n)
{
    const TextList options = {names, n};

    fail_with(request, problem, (MsgError){.options = value_texts(&options)});
}

void request_fail_file(Request *request, const Problem *problem, const char *symbol, Text path)
{
    fail_with(request, problem, (MsgError){.symbol = text_of(symbol), .path = path});
}

void request_fail_traceback(Request *request, const Problem *problem, Text traceback)
{
    fail_with(request, problem, (MsgError){.traceback = traceback});
}

void request_fail_log(Request *request, const Problem *problem, Text log)
{
    fail_with(request, problem, (MsgError){.log = log.size > 0 ? log : (Text){0}});
}

void request_fail_text(Request *request, ErrorCode code, const char *format, ...)
{
    Problem problem = {.code = code};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(problem.text, sizeof(problem.text), format, arguments);
    va_end(arguments);
    request_fail(request, &problem);
}

int request_event(Request *request, MessageKind kind, Text body)
{
    return send_body(request->listener, request->peer, kind, request->id, body);
}

void peer_fail(Listener *listener, Peer peer, uint64_t id, const Problem *problem)
{
    send_problem(listener, peer, id, problem, (MsgError){0});
}
