/* The requests about sessions. */
#include <errno.h>
#include <stdio.h>

#include "clients/c/client.h"
#include "clients/c/json.h"
#include "clients/c/options.h"

typedef struct OpenReply {
    Text session, instance, engine;
    bool created;
    const msgpack_object_map *options; /* as they hold */
} OpenReply;

static const Field open_fields[] = {
    FIELD(FIELD_TEXT, OpenReply, session, true, sizeof(((LimpetOpened *)0)->session) - 1),
    FIELD(FIELD_TEXT, OpenReply, instance, true, sizeof(((LimpetOpened *)0)->instance) - 1),
    FIELD(FIELD_TEXT, OpenReply, engine, true, sizeof(((LimpetOpened *)0)->engine) - 1),
    FIELD(FIELD_BOOL, OpenReply, created, true, 0),
    FIELD(FIELD_MAP, OpenReply, options, false, 0),
};

static double take_ttl(const msgpack_object_map *options)
{
    const msgpack_object *ttl = options ? map_find(options, "ttl") : NULL;
    double seconds = 0;

    if (ttl && ttl->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        seconds = (double)ttl->via.u64;
    else if (ttl && (ttl->type == MSGPACK_OBJECT_FLOAT64 || ttl->type == MSGPACK_OBJECT_FLOAT32))
        seconds = ttl->via.f64;
    return seconds > 0 ? seconds : LIMPET_FOREVER;
}

static void take_opened(LimpetOpened *ret, const OpenReply *reply)
{
    *ret = (LimpetOpened){.created = reply->created, .ttl = take_ttl(reply->options)};
    snprintf(ret->session, sizeof(ret->session), "%.*s", (int)reply->session.size, reply->session.data);
    snprintf(ret->instance, sizeof(ret->instance), "%.*s", (int)reply->instance.size, reply->instance.data);
    snprintf(ret->engine, sizeof(ret->engine), "%.*s", (int)reply->engine.size, reply->engine.data);
}

/* client_call() for what makes a session. */
static int call_open(LimpetClient *client, Call *call, Writer *w, LimpetOpened *opened)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    OpenReply body = {0};
    int r = client_call(client, call, w, &reply);

    if (!r)
        r = reply_fields(&body, open_fields, ARRAY_SIZE(open_fields), &reply.message.body, &client->problem);
    if (!r && opened)
        take_opened(opened, &body);
    return r;
}

int limpet_open(LimpetClient *client, const char *session, const LimpetOptions *options, LimpetOpened *opened)
{
    Call call = {.repeatable = true};
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_OPEN, 1 + OPTIONS_FIELDS);
    write_pair(&w, "session", session);
    options_write(&w, options);
    r = options_check(options, &client->problem);
    if (!r)
        r = call_open(client, &call, &w, opened);
    return client_result(client, r);
}

int limpet_branch(LimpetClient *client, const char *session, const char *name, const char *checkpoint,
                  LimpetOpened *opened)
{
    Call call = {0};
    Writer w;

    client_begin(client, &call, &w, MSG_BRANCH, 3);
    write_pair(&w, "session", session);
    write_pair(&w, "name", name);
    write_pair(&w, "checkpoint", checkpoint);
    return client_result(client, call_open(client, &call, &w, opened));
}

/* A request with nothing but the session. */
static int call_session(LimpetClient *client, MessageKind kind, const char *session, Reply *ret)
{
    Call call = {0};
    Writer w;

    client_begin(client, &call, &w, kind, 1);
    write_pair(&w, "session", session);
    return client_call(client, &call, &w, ret);
}

int limpet_interrupt(LimpetClient *client, const char *session, bool *interrupted)
{
    struct {
        bool interrupted;
    } body = {0};
    const Field field = {.name = "interrupted", .type = FIELD_BOOL, .need = FIELD_REQUIRED};
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    int r = call_session(client, MSG_INTERRUPT, session, &reply);

    if (!r)
        r = reply_fields(&body, &field, 1, &reply.message.body, &client->problem);
    if (!r && interrupted)
        *interrupted = body.interrupted;
    return client_result(client, r);
}

int limpet_reset(LimpetClient *client, const char *session, uint64_t *epoch)
{
    struct {
        uint64_t epoch;
    } body = {0};
    const Field field = {.name = "epoch", .type = FIELD_UINT, .need = FIELD_REQUIRED};
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    int r = call_session(client, MSG_RESET, session, &reply);

    if (!r)
        r = reply_fields(&body, &field, 1, &reply.message.body, &client->problem);
    if (!r && epoch)
        *epoch = body.epoch;
    return client_result(client, r);
}

int limpet_close(LimpetClient *client, const char *session)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;

    return client_result(client, call_session(client, MSG_CLOSE, session, &reply));
}

typedef struct CommitReply {
    uint64_t execution_count, epoch;
} CommitReply;

static const Field commit_fields[] = {
    FIELD(FIELD_UINT, CommitReply, execution_count, true, 0),
    FIELD(FIELD_UINT, CommitReply, epoch, true, 0),
};

int limpet_commit(LimpetClient *client, const char *session, const char *branch, uint64_t *execution_count,
                  uint64_t *epoch)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    CommitReply body = {0};
    Call call = {0};
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_COMMIT, 2);
    write_pair(&w, "session", session);
    write_pair(&w, "branch", branch);
    r = client_call(client, &call, &w, &reply);
    if (!r)
        r = reply_fields(&body, commit_fields, ARRAY_SIZE(commit_fields), &reply.message.body,
                         &client->problem);
    if (!r && execution_count)
        *execution_count = body.execution_count;
    if (!r && epoch)
        *epoch = body.epoch;
    return client_result(client, r);
}

int limpet_shutdown(LimpetClient *client, bool keep)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Call call = {.existing_only = true};
    Writer w;

    client_begin(client, &call, &w, MSG_SHUTDOWN, keep);
    if (keep) {
        write_key(&w, "keep");
        write_bool(&w, true);
    }
    return client_result(client, client_call(client, &call, &w, &reply));
}
