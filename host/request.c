#include "host/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/base/log.h"

Request *request_new(Router *router, const Peer *peer, uint64_t id)
{
    Request *request = calloc(1, sizeof(*request));

    if (!request)
        return NULL;
    list_init(&request->link);
    request->router = router;
    request->peer = *peer;
    request->id = id;
    return request;
}

static void request_free(Request *request)
{
    loop_timer_cancel(&request->timer);
    list_remove(&request->link);
    free(request);
}

/* [version, kind, id, body]: the envelope around a body that is encoded already. */
static int send_body(Router *router, const Peer *peer, MessageKind kind, uint64_t id, const Buf *body)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;
    int r;

    writer_init(&w, &frame);
    write_array(&w, 4);
    write_uint(&w, PROTOCOL_VERSION);
    write_uint(&w, kind);
    write_uint(&w, id);
    r = writer_finish(&w);
    if (r == 0)
        r = buf_append(&frame, buf_head(body), body->size);
    if (r == 0)
        r = router_send(router, peer, buf_head(&frame), frame.size);
    if (r < 0)
        log_debug("message not sent", "kind=%s error=%d", message_name(kind), -r);
    return r;
}

void request_reply(Request *request, const Buf *body)
{
    send_body(request->router, &request->peer, MSG_REPLY, request->id, body);
    request_free(request);
}

void request_reply_empty(Request *request)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    writer_init(&w, &body);
    write_map(&w, 0);
    writer_finish(&w);
    request_reply(request, &body);
}

static void send_problem(Router *router, const Peer *peer, uint64_t id, const Problem *problem,
                         const char *const *names, size_t n)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    writer_init(&w, &body);
    write_map(&w, names ? 4 : 3);
    write_key(&w, "number");
    write_uint(&w, problem->code);
    write_key(&w, "name");
    write_text(&w, error_name(problem->code));
    write_key(&w, "message");
    write_text(&w, problem->text);
    if (names) {
        write_key(&w, "options");
        write_array(&w, n);
        for (size_t i = 0; i < n; i++)
            write_text(&w, names[i]);
    }
    if (writer_finish(&w) == 0)
        send_body(router, peer, MSG_ERROR, id, &body);
}

void request_fail(Request *request, const Problem *problem)
{
    request_fail_options(request, problem, NULL, 0);
}

void request_fail_options(Request *request, const Problem *problem, const char *const *names, size_t n)
{
    send_problem(request->router, &request->peer, request->id, problem, names, n);
    request_free(request);
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

int request_event(Request *request, MessageKind kind, const Buf *body)
{
    return send_body(request->router, &request->peer, kind, request->id, body);
}

void peer_fail(Router *router, const Peer *peer, uint64_t id, const Problem *problem)
{
    send_problem(router, peer, id, problem, NULL, 0);
}
