#include "host/front/defer.h"

#include <stdio.h>
#include <string.h>

#include "host/link/envelope.h"
#include "host/front/ops.h"

typedef struct Deferred {
    List link;
    Request *request;
    MessageKind kind;
    Buf message;
} Deferred;

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

static bool defer(List *list, Request *request, MessageKind kind, const msgpack_object_map *body)
{
    Deferred *deferred = calloc(1, sizeof(*deferred));

    if (!deferred || envelope_wrap(&deferred->message, kind, 0, body) < 0) {
        free(deferred);
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return true;
    }
    deferred->request = request;
    deferred->kind = kind;
    list_append(list, &deferred->link);
    return true;
}

/* Has the request wait until the session is awake. False when it need not wait. */
static bool defer_asleep(Session *session, Request *request, MessageKind kind, const msgpack_object_map *body)
{
    Session *trunk = session ? session->sandbox->trunk : NULL;

    if (!trunk || trunk->state != SESSION_SAVED || op_find(kind)->lets_sleep)
        return false;
    defer(&trunk->asleep, request, kind, body);
    session_wake(trunk);
    return true;
}

bool defer_request(Front *front, Request *request, MessageKind kind, const msgpack_object_map *body)
{
    Text name, run_id;
    Session *session;
    Adoption *adoption;

    if (front->adopting->count == 0 && front->sessions->saved == 0)
        return false;
    name = text_in(body, "session");
    run_id = text_in(body, "run_id");
    if (run_id.data && !is_unknown(front->calls, request->user, run_id))
        return false;
    session = name.data ? find_session(front->sessions, request->user, name)
                        : find_ephemeral(front->sessions, request->user, run_id);
    adoption = session ? adoption_of(session) : NULL;
    if (adoption)
        return defer(&adoption->waiting, request, kind, body);
    if (defer_asleep(session, request, kind, body))
        return true;
    if (front->adopting->count > 0 && run_id.data && !name.data && kind != MSG_RUN)
        return defer(&front->deferred, request, kind, body);
    return false;
}

static void handle(Front *front, Request *request, const Buf *bytes)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (message_decode(&message, buf_head(bytes), bytes->size, &problem) < 0)
        request_fail(request, &problem);
    else
        op_find(message.kind)->handle(front, request, &message.body);
}

/* When the session was lost, `reason` (not "") is what those get that were meant for it. */
static void release(void *userdata, List *waiting, const char *reason)
{
    Front *front = userdata;
    List *link;

    while ((link = list_first(waiting))) {
        Deferred *deferred = list_entry(link, Deferred, link);

        list_remove(link);
        if (front->closing)
            request_fail_text(deferred->request, ERR_UNAVAILABLE, "the controller is shutting down");
        else if (*reason && deferred->kind != MSG_OPEN)
            request_fail_text(deferred->request, ERR_SESSION_CLOSED, "the session was closed: %s", reason);
        else
            handle(front, deferred->request, &deferred->message);
        buf_deinit(&deferred->message);
        free(deferred);
    }
}

static void fail(Request *request, const Front *front, const Problem *failure)
{
    if (front->closing)
        request_fail_text(request, ERR_UNAVAILABLE, "the controller is shutting down");
    else
        request_fail(request, failure);
}

/* Releases the requests that wait for a session; those that come meanwhile are not among them. */
void defer_release_woken(Front *front, Session *trunk, const Problem *failure)
{
    List waiting, *link;

    list_init(&waiting);
    while ((link = list_first(&trunk->asleep))) {
        list_remove(link);
        list_append(&waiting, link);
    }
    if (!failure) {
        release(front, &waiting, "");
        return;
    }
    while ((link = list_first(&waiting))) {
        Deferred *deferred = list_entry(link, Deferred, link);

        list_remove(link);
        fail(deferred->request, front, failure);
        buf_deinit(&deferred->message);
        free(deferred);
    }
}

static void release_all(void *userdata)
{
    Front *front = userdata;

    release(front, &front->deferred, "");
}

const AdoptingEvents defer_events = {.settled = release, .all_settled = release_all};
