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

static void take_opened(LimpetOpened *ret, const OpenReply *reply)
{
    *ret = (LimpetOpened){.created = reply->created};
    snprintf(ret->session, sizeof(ret->session), "%.*s", (int)reply->session.size, reply->session.data);
    snprintf(ret->instance, sizeof(ret->instance), "%.*s", (int)reply->instance.size, reply->instance.data);
    snprintf(ret->engine, sizeof(ret->engine), "%.*s", (int)reply->engine.size, reply->engine.data);
}

int limpet_open(LimpetClient *client, const char *session, const LimpetOptions *options, LimpetOpened *opened)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Call call = {.repeatable = true};
    OpenReply body = {0};
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_OPEN, 1 + OPTIONS_FIELDS);
    write_key(&w, "session");
    write_text(&w, session);
    options_write(&w, options);
    r = options_check(options, &client->problem);
    if (!r)
        r = client_call(client, &call, &w, &reply);
    if (!r)
        r = reply_fields(&body, open_fields, ARRAY_SIZE(open_fields), &reply.message.body, &client->problem);
    if (!r && opened)
        take_opened(opened, &body);
    return client_result(client, r);
}

/* A request with nothing but the session. */
static int call_session(LimpetClient *client, MessageKind kind, const char *session, Reply *ret)
{
    Call call = {0};
    Writer w;

    client_begin(client, &call, &w, kind, 1);
    write_key(&w, "session");
    write_text(&w, session);
    return client_call(client, &call, &w, ret);
}

int limpet_interrupt(LimpetClient *client, const char *session, bool *interrupted)
{
    struct {
        bool interrupted;
    } body = {0};
    const Field field = {.name = "interrupted", .type = FIELD_BOOL, .required = true};
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
    const Field field = {.name = "epoch", .type = FIELD_UINT, .required = true};
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

int limpet_shutdown(LimpetClient *client)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Call call = {.existing_only = true};
    Writer w;

    client_begin(client, &call, &w, MSG_SHUTDOWN, 0);
    return client_result(client, client_call(client, &call, &w, &reply));
}
