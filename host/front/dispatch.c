#include "host/front/front.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/front/defer.h"
#include "host/front/ops.h"
#include "proto/base/log.h"

/* Root, or the same user; or a member of the group, which the mode of the socket has seen to. It lets in
 * nobody else, so that inside of a user namespace, where root has no uid, nothing is left to ask. On other
 * machines whoever has a key, where what is run has no rights of the user who runs us. */
static bool allowed(const Front *front, const PeerCredentials *credentials)
{
    if (credentials->remote)
        return sandboxes_isolate(front->sandboxes) || credentials->uid == front->paths->user;
    return credentials->uid == 0 || credentials->uid == front->paths->user || front->shared ||
           front->paths->inside;
}

/* Returns the user whose sessions a client has. A controller that is not root's is one user's, and everybody
 * that it admits is that user. */
static uid_t user_of(const Paths *paths, const PeerCredentials *credentials)
{
    return paths->user == 0 || credentials->remote ? credentials->uid : paths->user;
}

static void refuse(Front *front, Peer peer, uint64_t id, ErrorCode code, const char *text)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s", text);
    peer_fail(front->clients, peer, id, &problem);
}

/* Limits of what one user may have wait for answers: requests, and bytes of all that they and the connections
 * hold. */
#define USER_REQUESTS 8192
#define USER_BYTES    ((size_t)256 << 20)

static void refuse_charged(const Front *front, Peer peer, uint64_t id, int error)
{
    Problem problem = PROBLEM_NULL;

    if (error == -EDQUOT)
        problem_set(&problem, ERR_LIMIT_REACHED,
                    "your requests that wait for an answer are %u, or hold %zu MiB, which is the limit; wait "
                    "until some are answered",
                    USER_REQUESTS, USER_BYTES >> 20);
    else
        problem_set(&problem, ERR_INTERNAL, "out of memory");
    peer_fail(front->clients, peer, id, &problem);
}

static void dispatch(Front *front, Peer peer, const PeerCredentials *credentials, const Message *message,
                     size_t size)
{
    uid_t user = user_of(front->paths, credentials);
    const Op *op = op_find(message->kind);
    Request *request;
    int r;

    if (message->kind == MSG_CREDIT) {
        calls_credit(front->calls, peer, message->id, &message->body);
        return;
    }
    if (message->kind == MSG_ANSWER) {
        asks_answer(front->calls, peer, message->id, &message->body);
        return;
    }
    if (!op) {
        refuse(front, peer, message->id, ERR_BAD_REQUEST, "clients do not send messages of this kind");
        return;
    }
    if (front->closing && op->kind != MSG_SHUTDOWN) {
        refuse(front, peer, message->id, ERR_UNAVAILABLE, "the controller is shutting down");
        return;
    }
    r = request_new(&request, front->clients, peer, user, message->id, size);
    if (r < 0) {
        refuse_charged(front, peer, message->id, r);
        return;
    }
    request->remote = credentials->remote;
    if (!defer_request(front, request, message->kind, &message->body))
        op->handle(front, request, &message->body);
}

static void on_message(void *userdata, Peer peer, const PeerCredentials *credentials, const uint8_t *bytes,
                       size_t size)
{
    Front *front = userdata;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (!allowed(front, credentials)) {
        log_warn("client refused", "uid=%d pid=%d", (int)credentials->uid, (int)credentials->pid);
        refuse(front, peer, 0, ERR_DENIED,
               credentials->remote
                   ? "the engine of this controller does not isolate: over a network it serves "
                     "only keys of the user who runs it"
                   : "this controller serves only root and the user who runs it");
        return;
    }
    if (message_decode(&message, bytes, size, &problem) < 0)
        peer_fail(front->clients, peer, message.id, &problem);
    else
        dispatch(front, peer, credentials, &message, size);
}

static void on_multipart(void *userdata, Peer peer)
{
    refuse(userdata, peer, 0, ERR_BAD_REQUEST, "a message must be one frame; this one has several");
}

static void on_gone(void *userdata, Peer peer)
{
    Front *front = userdata;

    uploads_client_gone(front, peer);
    calls_client_gone(front->calls, peer);
    sessions_restorer_gone(front->sessions, peer);
}

static const ListenerEvents listener_events = {
    .on_message = on_message,
    .on_multipart = on_multipart,
    .on_gone = on_gone,
};

void front_init(Front *front)
{
    list_init(&front->shutdown_waiters);
    list_init(&front->deferred);
    list_init(&front->uploads);
}

/* The largest records a client may leave unread. */
#define UNREAD_RECORDS 4
#define CLIENTS_MAX    1024
/* Half of them: nobody has all. */
#define USER_CLIENTS 512

/* Admits the group, unless the engine does not isolate: code would have the rights of the controller's user,
 * and so would everybody who may run any. */
static int share(Front *front, bool listens_already)
{
    if (front->paths->group == NO_GROUP)
        return 0;
    if (!sandboxes_isolate(front->sandboxes)) {
        log_warn("group not let in", "group=%s reason=%s", front->options->group,
                 "the engine does not isolate: its code has the rights of root");
        return 0;
    }
    front->shared = true;
    return listens_already ? 0 : listener_admit(front->clients, front->paths->group);
}

int front_open(Front *front, Loop *loop, int listening, Problem *problem)
{
    static const ListenerLimits limits = {
        .frame = LIMIT_CLIENT_FRAME,
        .queue = UNREAD_RECORDS * LIMIT_GUEST_FRAME,
        .peers = CLIENTS_MAX,
        .user_peers = USER_CLIENTS,
        .user_bytes = USER_BYTES,
        .user_requests = USER_REQUESTS,
    };
    const char *path = front->paths->socket;
    int r = listening >= 0
                ? listener_adopt(&front->clients, loop, listening, path, &limits, &listener_events, front)
                : listener_new(&front->clients, loop, path, &limits, &listener_events, front);

    if (r == -EADDRINUSE)
        return problem_set(problem, ERR_UNAVAILABLE,
                           "another controller answers on %s; use it, stop it, or set another socket "
                           "with --socket",
                           path);
    if (r == 0)
        r = share(front, listening >= 0);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "cannot listen on %s: %s", path, strerror(-r)) : 0;
}
