#include "host/front.h"

#include <unistd.h>

#include "host/call.h"
#include "host/ops.h"
#include "proto/base/log.h"

/* The same user, or root. A peer the kernel says nothing of is nobody. */
static bool allowed(const PeerCredentials *credentials)
{
    return credentials->uid == geteuid() || credentials->uid == 0;
}

static void refuse(Controller *controller, const Peer *peer, uint64_t id, ErrorCode code, const char *text)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s", text);
    peer_fail(controller->clients, peer, id, &problem);
}

static void dispatch(Controller *controller, const Peer *peer, const Message *message)
{
    const Op *op = op_find(message->kind);
    Request *request;

    if (message->kind == MSG_CREDIT) {
        calls_credit(controller, peer, message->id, &message->body);
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
    if (request)
        op->handle(controller, request, &message->body);
    else
        refuse(controller, peer, message->id, ERR_INTERNAL, "out of memory");
}

static void on_message(void *userdata, const Peer *peer, const PeerCredentials *credentials,
                       const uint8_t *bytes, size_t size)
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

static void on_multipart(void *userdata, const Peer *peer)
{
    refuse(userdata, peer, 0, ERR_BAD_REQUEST, "a message is one frame; this one had several");
}

const RouterEvents front_events = {.on_message = on_message, .on_multipart = on_multipart};
