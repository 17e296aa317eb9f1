#include "host/front.h"

#include <unistd.h>

#include "host/adopt_wait.h"
#include "host/call.h"
#include "host/ops.h"
#include "proto/base/log.h"

/* Root, or the same user. */
static bool allowed(const PeerCredentials *credentials)
{
    return credentials->uid == 0 || credentials->uid == geteuid();
}

static void refuse(Controller *controller, Peer peer, uint64_t id, ErrorCode code, const char *text)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s", text);
    peer_fail(controller->clients, peer, id, &problem);
}

static void dispatch(Controller *controller, Peer peer, const Message *message)
{
    const Op *op = op_find(message->kind);
    Request *request;

    if (message->kind == MSG_CREDIT) {
        calls_credit(controller, peer, message->id, &message->body);
        return;
    }
    if (message->kind == MSG_ANSWER) {
        asks_answer(controller, peer, message->id, &message->body);
        return;
    }
    if (!op) {
        refuse(controller, peer, message->id, ERR_BAD_REQUEST, "clients do not send messages of this kind");
        return;
    }
    if (controller->closing && op->kind != MSG_SHUTDOWN) {
        refuse(controller, peer, message->id, ERR_UNAVAILABLE, "the controller is shutting down");
        return;
    }
    request = request_new(controller->clients, peer, message->id);
    if (!request)
        refuse(controller, peer, message->id, ERR_INTERNAL, "out of memory");
    else if (!adopt_defer(controller, request, message->kind, &message->body))
        op->handle(controller, request, &message->body);
}

static void on_message(void *userdata, Peer peer, const PeerCredentials *credentials, const uint8_t *bytes,
                       size_t size)
{
    Controller *controller = userdata;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (!allowed(credentials)) {
        log_warn("client refused", "uid=%d pid=%d", (int)credentials->uid, (int)credentials->pid);
        refuse(controller, peer, 0, ERR_DENIED, "this controller serves only the user who runs it, and root");
        return;
    }
    if (message_decode(&message, bytes, size, &problem) < 0)
        peer_fail(controller->clients, peer, message.id, &problem);
    else
        dispatch(controller, peer, &message);
}

static void on_multipart(void *userdata, Peer peer)
{
    refuse(userdata, peer, 0, ERR_BAD_REQUEST, "a message is one frame; this one had several");
}

static void on_gone(void *userdata, Peer peer)
{
    calls_client_gone(userdata, peer);
}

const ListenerEvents front_events = {
    .on_message = on_message,
    .on_multipart = on_multipart,
    .on_gone = on_gone,
};
