#include "host/front/front.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/front/ops.h"
#include "host/link/envelope.h"
#include "host/sandbox/data.h"
#include "host/session/checkpoint_files.h"
#include "host/session/end_record.h"
#include "proto/base/log.h"

/* ---- what operations share ---- */

static const Op *const operations[] = {
    &op_hello,       &op_open,        &op_run,       &op_exec,
    &op_interrupt,   &op_reset,       &op_close,     &op_sessions,
    &op_result,      &op_put,         &op_get,       &op_shutdown,
    &op_checkpoint,  &op_checkpoints, &op_rollback,  &op_drop,
    &op_branch,      &op_context,     &op_commit,    &op_namespace,
    &op_files,       &op_start,       &op_processes, &op_process,
    &op_connect,     &op_template,    &op_templates, &op_remove_template,
    &op_set_network, &op_save,        &op_load,      &op_export,
    &op_install,     &op_artifact,    &op_sleep,     &op_fork,
};

/* NULL when clients may not send this kind. */
static const Op *find_op(MessageKind kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
        if (operations[i]->kind == kind)
            return operations[i];
    return NULL;
}

bool op_decode_as(Request *request, void *ret, const Schema *schema, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;

    if (schema_decode(ret, schema, body, &problem) == 0)
        return true;
    request_fail(request, &problem);
    return false;
}

/* Keeps the message of a request that is to be handled later. False, and the request has failed, where there
 * is no memory. */
static bool keep_message(Request *request, const msgpack_object_map *body)
{
    if (envelope_wrap(&request->message, request->kind, 0, body) < 0) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return false;
    }
    return true;
}

/* A request that waits for its directory. */
typedef struct WaitForData {
    Front *front;
    Request *request; /* parked */
    char *named;
} WaitForData;

static RequestDirectory *find_directory(const Request *request, Text named)
{
    RequestDirectory *directory;

    list_foreach (directory, (List *)&request->directories, RequestDirectory, link)
        if (text_equal(named, directory->named))
            return directory;
    return NULL;
}

static int add_directory(Request *request, char *named, const char *path, int fd)
{
    RequestDirectory *directory = calloc(1, sizeof(*directory));
    char *copy = strdup(path);

    if (!directory || !copy) {
        free(directory);
        free(copy);
        return -ENOMEM;
    }
    directory->named = named;
    directory->path = copy;
    directory->fd = fd;
    list_append(&request->directories, &directory->link);
    return 0;
}

static void on_data(void *userdata, int directory, const char *path, const Problem *failure)
{
    WaitForData *wait = userdata;
    Front *front = wait->front;
    Request *request = wait->request;
    Problem problem = PROBLEM_NULL;

    if (!failure && add_directory(request, wait->named, path, directory) < 0) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        failure = &problem;
    }
    if (failure) {
        close_fd(&directory);
        free(wait->named);
    }
    free(wait);
    front_resume(front, request, failure);
}

static void wait_for_data(Front *front, Request *request, const msgpack_object_map *body, Text named)
{
    WaitForData *wait;
    Problem problem = PROBLEM_NULL;

    if (!keep_message(request, body))
        return;
    problem_set(&problem, ERR_INTERNAL, "out of memory");
    wait = calloc(1, sizeof(*wait));
    if (wait)
        *wait = (WaitForData){front, request, text_dup(named)};
    if (wait && wait->named && data_open(front->sandboxes, request->user, named, on_data, wait, &problem))
        return;
    request_fail(request, &problem);
    if (wait)
        free(wait->named);
    free(wait);
}

bool op_find_data(Front *front, Request *request, const msgpack_object_map *body, Text named,
                  const RequestDirectory **ret)
{
    *ret = named.data ? find_directory(request, named) : NULL;
    if (named.data && !*ret)
        wait_for_data(front, request, body, named);
    return !named.data || *ret;
}

bool op_find_data_of(Front *front, Request *request, const msgpack_object_map *body, MsgOptions *options,
                     const RequestDirectory **ret)
{
    if (options->data.data &&
        !request_is_local(request, "data names a directory of the machine that the controller runs on"))
        return false;
    if (!op_find_data(front, request, body, options->data, ret))
        return false;
    if (*ret)
        options->data = text_of((*ret)->path);
    return true;
}

bool op_refuse_ended(Front *front, Request *request, Text name)
{
    const EndRecord *end_record = end_record_find(&front->sessions->end_records, request->user, name);
    char words[END_RECORD_WORDS];

    if (!end_record)
        return false;
    end_record_words(words, end_record);
    request_fail_text(request, ERR_NO_SUCH_SESSION, "the session '%s' %s; its variables are gone: %s",
                      end_record->name, words,
                      strchr(end_record->name, '/') ? "open a new branch with `branch`"
                                                    : "open it again for a new session");
    return true;
}

/* Refuses a session that has the name of the one that was meant, and is another. */
static void refuse_other(Request *request, const Session *other, Text instance)
{
    const EndRecord *end_record =
        end_record_find(&other->all->end_records, other->user, text_of(other->name));
    char words[END_RECORD_WORDS] = "was closed";

    if (end_record && text_equal(instance, end_record->instance))
        end_record_words(words, end_record);
    request_fail_text(request, ERR_NO_SUCH_SESSION,
                      "another session of that name has been opened since yours %s; its variables are not "
                      "yours: open '%s' again to use it",
                      words, other->name);
}

Session *op_session(Front *front, Request *request, Text name, Text instance)
{
    Session *session = sessions_find(front->sessions, request->user, name);

    if (!session && !op_refuse_ended(front, request, name))
        request_fail_text(request, ERR_NO_SUCH_SESSION, "no session named '%.*s' is open; open it first",
                          (int)MIN(name.size, LIMIT_SESSION_PATH), name.data ? name.data : "");
    if (session && instance.data && !text_equal(instance, session->instance)) {
        refuse_other(request, session, instance);
        return NULL;
    }
    return session;
}

Session *op_target(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgTarget target;

    return op_decode_session(front, request, &target, MsgTarget, body);
}

/* ---- queries ---- */

void *query_new(size_t size, const GuestRequestOps *ops, GuestLane lane, MessageKind kind,
                const Schema *schema, const void *body, Request *request)
{
    Query *query = calloc(1, size);

    if (!query || schema_append(&query->to_guest.body, schema, body) < 0) {
        free(query);
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    guest_request_init(&query->to_guest, ops, lane, NULL, NULL);
    query->to_guest.kind = kind;
    query->request = request;
    return query;
}

void query_begin(Query *query, const Session *session, const char *busy)
{
    query->to_guest.sandbox = session->sandbox;
    if (sandbox_queue(session->sandbox, &query->to_guest) == 0)
        return;
    request_fail_text(query->request, ERR_BUSY, "%s", busy);
    buf_deinit(&query->to_guest.body);
    free(query);
}

Request *query_finish(Query *query)
{
    Request *request = query->request;

    sandbox_query_over(&query->to_guest);
    free(query);
    return request;
}

void query_fail(GuestRequest *to_guest, const Problem *problem)
{
    request_fail(query_finish(container_of(to_guest, Query, to_guest)), problem);
}

int query_unexpected(const Message *message, Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
}

/* ---- requests that wait ----
 *
 * It may not be known yet what became of the session or the call that they name, as sessions are being
 * adopted; or the session is saved, and woken for them. */

/* Many may wait, and long: their directories are opened again. */
bool front_park(Request *request, List *list, const msgpack_object_map *body)
{
    request_close_directories(request);
    if (!keep_message(request, body))
        return false;
    if (list)
        list_append(list, &request->link);
    return true;
}

/* The request may be parked again, with a message of its own. */
void front_resume(Front *front, Request *request, const Problem *failure)
{
    Buf bytes _cleanup_(buf_deinit) = request->message;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    request->message = BUF_NULL;
    if (front->closing)
        request_fail_text(request, ERR_UNAVAILABLE, "the controller is shutting down");
    else if (failure)
        request_fail(request, failure);
    else if (message_decode(&message, buf_head(&bytes), bytes.size, &problem) < 0)
        request_fail(request, &problem);
    else
        find_op(message.kind)->handle(front, request, &message.body);
}

void front_resume_all(Front *front, List *list, const Problem *failure)
{
    List waiting = LIST_INIT(waiting), *link;

    while ((link = list_first(list))) {
        list_remove(link);
        list_append(&waiting, link);
    }
    while ((link = list_first(&waiting))) {
        list_remove(link);
        front_resume(front, list_entry(link, Request, link), failure);
    }
}

static Text text_in(const msgpack_object_map *body, const char *key)
{
    const msgpack_object *value = map_find(body, key);

    if (!value || value->type != MSGPACK_OBJECT_STR)
        return (Text){0};
    return (Text){value->via.str.ptr, value->via.str.size};
}

/* The session, or that which the branch it may be is of. */
static Session *find_session(const Sessions *sessions, uid_t user, Text name)
{
    Session *session = sessions_holder(sessions, user, name);
    const char *slash = name.data ? memrchr(name.data, '/', name.size) : NULL;

    if (session || !slash)
        return session;
    return find_session(sessions, user, (Text){name.data, (size_t)(slash - name.data)});
}

/* The session that a call in a container of its own has. */
static Session *find_ephemeral(const Sessions *sessions, uid_t user, Text run_id)
{
    char name[LIMIT_RUN_ID + 2];

    if (!run_id_valid(run_id))
        return NULL;
    snprintf(name, sizeof(name), "~%.*s", (int)run_id.size, run_id.data);
    return sessions_holder(sessions, user, (Text){name, strlen(name)});
}

static bool is_unknown(const Calls *calls, uid_t user, Text run_id)
{
    char id[LIMIT_RUN_ID + 1];

    if (!run_id_valid(run_id))
        return false;
    snprintf(id, sizeof(id), "%.*s", (int)run_id.size, run_id.data);
    return !call_find(calls, user, id);
}

/* Returns the list in which requests about the session have to wait, NULL where there is none. */
static List *waiting_room(Session *session, MessageKind kind)
{
    Adoption *adoption = session ? adoption_of(session) : NULL;
    Session *root = session ? session->sandbox->root : NULL;

    if (adoption)
        return &adoption->waiting;
    if (!root || root->state != SESSION_SAVED || find_op(kind)->lets_sleep)
        return NULL;
    return &root->asleep;
}

/* Returns whether the request has to wait, and then has parked it. */
static bool park_if_needed(Front *front, Request *request, const msgpack_object_map *body)
{
    Text name, run_id;
    Session *session;
    List *room;

    if (front->adopting->count == 0 && front->sessions->saved == 0)
        return false;
    name = text_in(body, "session");
    run_id = text_in(body, "run_id");
    if (run_id.data && !is_unknown(front->calls, request->user, run_id))
        return false;
    session = name.data ? find_session(front->sessions, request->user, name)
                        : find_ephemeral(front->sessions, request->user, run_id);
    room = waiting_room(session, request->kind);
    if (!room && front->adopting->count > 0 && run_id.data && !name.data && request->kind != MSG_RUN)
        room = &front->parked;
    if (!room)
        return false;
    if (front_park(request, room, body) && session && room == &session->sandbox->root->asleep)
        session_wake(session->sandbox->root);
    return true;
}

/* When the session was lost, `reason` (not "") is what those get that were meant for it, and not for its
 * name. */
static void on_adoption_settled(void *userdata, List *waiting, const char *reason)
{
    Problem lost = PROBLEM_NULL;
    List *link;

    problem_set(&lost, ERR_SESSION_CLOSED, "the session was closed: %s", reason);
    while ((link = list_first(waiting))) {
        Request *request = list_entry(link, Request, link);

        list_remove(link);
        front_resume(userdata, request, *reason && request->kind != MSG_OPEN ? &lost : NULL);
    }
}

static void on_all_adopted(void *userdata)
{
    Front *front = userdata;

    front_resume_all(front, &front->parked, NULL);
}

const AdoptingEvents front_adopting_events = {.settled = on_adoption_settled, .all_settled = on_all_adopted};

/* ---- the socket of clients ---- */

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
    const Op *op = find_op(message->kind);
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
    request->kind = message->kind;
    if (!park_if_needed(front, request, &message->body))
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
    pieces_client_gone(front, peer);
    calls_client_gone(front->calls, peer);
    sessions_restorer_gone(front->sessions, peer);
}

static void on_taken(void *userdata, Peer peer)
{
    Front *front = userdata;

    if (!list_empty(&front->pieces))
        pieces_resume(front, peer);
}

static const ListenerEvents listener_events = {
    .on_message = on_message,
    .on_multipart = on_multipart,
    .on_taken = on_taken,
    .on_gone = on_gone,
};

void front_init(Front *front)
{
    list_init(&front->shutdown_waiters);
    list_init(&front->parked);
    list_init(&front->uploads);
    list_init(&front->pieces);
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
        .unread = PIECES_UNREAD,
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
