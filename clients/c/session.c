/* The requests about sessions. */

#include <errno.h>
#include <stdio.h>

#include "clients/c/client.h"
#include "clients/c/json.h"
#include "clients/c/limpet_files.h"
#include "clients/c/options.h"

static double take_ttl(const MsgOpenReply *reply)
{
    return reply->has_options && reply->options.ttl > 0 ? reply->options.ttl : LIMPET_FOREVER;
}

/* Names beyond the room of *ret are left out. */
static void take_not_enforced(char *ret, size_t size, const Value *names)
{
    size_t used = 0;

    for (uint32_t i = 0; names->array && i < names->array->size; i++) {
        Text name = value_text(names, i);

        if (used + name.size + sizeof(", ") <= size)
            used += (size_t)snprintf(ret + used, size - used, "%s%.*s", used ? ", " : "", (int)name.size,
                                     name.data);
    }
}

static bool fits(Text text, size_t size)
{
    return text.size < size;
}

static int take_opened(LimpetOpened *ret, const MsgOpenReply *reply, Problem *problem)
{
    if (!fits(reply->session, sizeof(ret->session)) || !fits(reply->instance, sizeof(ret->instance)) ||
        !fits(reply->engine, sizeof(ret->engine)))
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "a name in the answer of the controller is too long");
    *ret = (LimpetOpened){.created = reply->created, .ttl = take_ttl(reply)};
    snprintf(ret->session, sizeof(ret->session), "%.*s", (int)reply->session.size, reply->session.data);
    snprintf(ret->instance, sizeof(ret->instance), "%.*s", (int)reply->instance.size, reply->instance.data);
    snprintf(ret->engine, sizeof(ret->engine), "%.*s", (int)reply->engine.size, reply->engine.data);
    take_not_enforced(ret->not_enforced, sizeof(ret->not_enforced), &reply->not_enforced);
    return 0;
}

/* client_call() for what makes a session. */
static int call_open(LimpetClient *client, ClientCall *call, LimpetOpened *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    LimpetOpened opened;
    MsgOpenReply body;
    int r = client_call_for(client, call, &reply, &body, MsgOpenReply);

    if (!r)
        r = take_opened(&opened, &body, &client->problem);
    if (!r && ret)
        *ret = opened;
    return r;
}

/* `ret` may be NULL. 0 or negative, as client_call(). */
static int session_open(LimpetClient *client, const MsgOpen *open, LimpetOpened *ret)
{
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_OPEN, MsgOpen, open);
    return call_open(client, &call, ret);
}

static int open_or_attach(LimpetClient *client, const char *session, const LimpetOptions *options,
                          bool attach, LimpetOpened *opened)
{
    const MsgOpen open = {.session = text_of(session), .attach = attach, .options = options_say(options)};
    int r;

    client->problem = PROBLEM_NULL;
    r = options_check(client, options, &client->problem);
    if (!r)
        r = session_open(client, &open, opened);
    return client_result(client, r);
}

/* Also of a session that is not new, but whose opening was answered in vain. */
static int has_no_data(LimpetClient *client, const char *session, bool *ret)
{
    LimpetEntries *found = NULL;
    int r = limpet_files_list(client, session, "/data", 1, &found);

    *ret = !r && found->n_entries == 0;
    limpet_entries_free(found);
    return r;
}

/* Copies a directory of this machine to a session of another one, which is closed if that fails and it is
 * new. */
static int open_copying(LimpetClient *client, const char *session, const LimpetOptions *options,
                        LimpetOpened *opened)
{
    LimpetOptions rest = *options;
    bool copies;
    int r;

    rest.data = NULL;
    r = open_or_attach(client, session, &rest, false, opened);
    copies = opened->created;
    if (!r && !copies)
        r = has_no_data(client, session, &copies);
    if (r || !copies)
        return r;
    r = limpet_files_put_tree(client, session, options->data, "/data", NULL, NULL);
    if (r && opened->created) {
        const Problem problem = client->problem;

        limpet_close(client, session, NULL, NULL);
        client->problem = problem;
    }
    return r;
}

int limpet_open(LimpetClient *client, const char *session, const LimpetOptions *options, LimpetOpened *opened)
{
    LimpetOpened unused = {0};

    if (options && options_copies_data(client, options))
        return open_copying(client, session, options, opened ? opened : &unused);
    return open_or_attach(client, session, options, false, opened);
}

int limpet_attach(LimpetClient *client, const char *session, LimpetOpened *opened)
{
    return open_or_attach(client, session, NULL, true, opened);
}

int limpet_branch(LimpetClient *client, const char *session, const char *name, const char *checkpoint,
                  LimpetOpened *opened)
{
    const MsgBranch branch = {
        .session = text_of(session), .name = text_of(name), .checkpoint = text_of(checkpoint)};
    ClientCall call = {0};

    client_begin(client, &call, MSG_BRANCH, MsgBranch, &branch);
    return client_result(client, call_open(client, &call, opened));
}

typedef struct Names {
    const char *const *names;
    size_t n;
} Names;

static void write_names(Writer *w, const void *source)
{
    const Names *names = source;

    write_array(w, (uint32_t)names->n);
    for (size_t i = 0; i < names->n; i++)
        write_text(w, names->names[i]);
}

static int take_forked(LimpetOpened *ret, size_t n, const MsgForked *reply, Problem *problem)
{
    MsgOpenReply row;
    int r = 0;

    if (value_count(&reply->sessions) != n)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH, "the controller made another number of sessions");
    for (uint32_t i = 0; ret && r == 0 && i < n; i++) {
        value_row(&row, MsgOpenReply, &reply->sessions, i);
        r = take_opened(&ret[i], &row, problem);
    }
    return r;
}

int limpet_fork(LimpetClient *client, const char *session, const char *const *names, size_t n,
                LimpetOpened *opened)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const Names given = {names, n};
    const MsgFork asked = {.session = text_of(session), .names = {.write = write_names, .source = &given}};
    ClientCall call = {0};
    MsgForked body;
    int r;

    client_begin(client, &call, MSG_FORK, MsgFork, &asked);
    r = client_call_for(client, &call, &reply, &body, MsgForked);
    if (!r)
        r = take_forked(opened, n, &body, &client->problem);
    return client_result(client, r);
}

int limpet_context(LimpetClient *client, const char *session, const char *name, const char *language,
                   const char *cwd, LimpetOpened *opened)
{
    const MsgContext context = {.session = text_of(session),
                                .name = text_of(name),
                                .language = text_of(language),
                                .cwd = text_of(cwd)};
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_CONTEXT, MsgContext, &context);
    return client_result(client, call_open(client, &call, opened));
}

/* A request with nothing but the session. */
#define call_session(client, kind, session, ret, body, type)                                                 \
    call_session_with(client, kind, session, ret, (type *){body}, SCHEMA(type))
static int call_session_with(LimpetClient *client, MessageKind kind, const char *session, Reply *ret,
                             void *body, const Schema *schema)
{
    ClientCall call = {0};

    client_begin(client, &call, kind, MsgTarget, &(MsgTarget){.session = text_of(session)});
    return client_call_for_with(client, &call, ret, body, schema);
}

int limpet_interrupt(LimpetClient *client, const char *session, bool *interrupted)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    MsgInterruptReply body;
    int r = call_session(client, MSG_INTERRUPT, session, &reply, &body, MsgInterruptReply);

    if (!r && interrupted)
        *interrupted = body.interrupted;
    return client_result(client, r);
}

int limpet_reset(LimpetClient *client, const char *session, uint64_t *epoch)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    MsgEpoch body;
    int r = call_session(client, MSG_RESET, session, &reply, &body, MsgEpoch);

    if (!r && epoch)
        *epoch = body.epoch;
    return client_result(client, r);
}

int limpet_sleep(LimpetClient *client, const char *session)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    MsgNothing body;

    return client_result(client, call_session(client, MSG_SLEEP, session, &reply, &body, MsgNothing));
}

int limpet_close(LimpetClient *client, const char *session, char **out, char **err)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    MsgCloseReply body = {0};
    int r = call_session(client, MSG_CLOSE, session, &reply, &body, MsgCloseReply);

    if (out)
        *out = body.out.data ? text_dup(body.out) : NULL;
    if (err)
        *err = body.err.data ? text_dup(body.err) : NULL;
    return client_result(client, r);
}

int limpet_commit(LimpetClient *client, const char *session, const char *branch, uint64_t *execution_count,
                  uint64_t *epoch)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgCommit commit = {.session = text_of(session), .branch = text_of(branch)};
    MsgCommitReply body;
    ClientCall call = {0};
    int r;

    client_begin(client, &call, MSG_COMMIT, MsgCommit, &commit);
    r = client_call_for(client, &call, &reply, &body, MsgCommitReply);
    if (!r && execution_count)
        *execution_count = body.execution_count;
    if (!r && epoch)
        *epoch = body.epoch;
    return client_result(client, r);
}

int limpet_shutdown(LimpetClient *client, bool keep)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    ClientCall call = {.existing_only = true};

    client_begin(client, &call, MSG_SHUTDOWN, MsgShutdown, &(MsgShutdown){.keep = keep});
    return client_result(client, client_call(client, &call, &reply));
}

/* ---- limpet_sessions() ---- */

/* Status that people are told of a saved session. The wire says it beside `status`, for the sake of earlier
 * clients. */
static const char saved[] = "saved";

/* In the reply itself, which becomes the JSON. */
static void show_saved(const msgpack_object *row)
{
    const msgpack_object_map *map = &row->via.map;

    for (uint32_t i = 0; i < map->size; i++)
        if (map->ptr[i].key.type == MSGPACK_OBJECT_STR &&
            text_equal((Text){map->ptr[i].key.via.str.ptr, map->ptr[i].key.via.str.size}, "status"))
            map->ptr[i].val.via.str = (msgpack_object_str){.size = sizeof(saved) - 1, .ptr = saved};
}

static void read_session(LimpetSession *ret, const MsgSession *said, Arena *arena)
{
    *ret = (LimpetSession){
        .session = arena_text(arena, said->session),
        .user = said->user == NO_UINT ? -1 : (int64_t)said->user,
        .engine = arena_text(arena, said->engine),
        .container = arena_text(arena, said->container),
        .status = said->saved ? saved : arena_text(arena, said->status),
        .created = said->created,
        .idle = said->idle,
        .execution_count = said->execution_count,
        .epoch = said->epoch,
        .memory = uint_or(said->memory, 0),
    };
}

static int read_list(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetSession *sessions;
    MsgSessions body;
    int r = reply_decode(&body, MsgSessions, map, problem);

    if (r < 0)
        return r;
    sessions = arena_new(arena, value_count(&body.sessions), sizeof(*sessions));
    for (uint32_t i = 0; sessions && i < value_count(&body.sessions); i++) {
        MsgSession row;

        value_row(&row, MsgSession, &body.sessions, i);
        read_session(&sessions[i], &row, arena);
        if (row.saved)
            show_saved(&body.sessions.array->ptr[i]);
    }
    *(LimpetSessions *)value = (LimpetSessions){
        .pid = (int64_t)body.controller.pid,
        .version = arena_text(arena, body.controller.version),
        .socket = arena_text(arena, body.controller.socket),
        .engine = arena_text(arena, body.controller.engine),
        .spares = uint_or(body.controller.spares, 0),
        .sessions = sessions,
        .n_sessions = value_count(&body.sessions),
    };
    return 0;
}

static int list(LimpetClient *client, bool all, LimpetSessions **ret)
{
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_SESSIONS, MsgList, &(MsgList){.all = all});
    return answer_call(client, &call, sizeof(LimpetSessions), read_list, ret);
}

int limpet_sessions(LimpetClient *client, LimpetSessions **ret)
{
    return list(client, false, ret);
}

int limpet_sessions_all(LimpetClient *client, LimpetSessions **ret)
{
    return list(client, true, ret);
}
