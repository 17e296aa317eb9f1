#include "clients/c/exporting/past_calls.h"

#include <errno.h>
#include <string.h>

#include "clients/c/exporting/command_line.h"

const msgpack_object *past_call_said(const PastCall *call, const char *key)
{
    return call->record ? map_find(call->record, key) : NULL;
}

Text past_call_text(const PastCall *call, const char *key)
{
    return text_of_object(past_call_said(call, key));
}

const msgpack_object_map *past_call_map(const PastCall *call, const char *key)
{
    const msgpack_object *said = past_call_said(call, key);

    return said && said->type == MSGPACK_OBJECT_MAP ? &said->via.map : NULL;
}

bool past_call_count(const PastCall *call, uint64_t *ret)
{
    const msgpack_object *said = past_call_said(call, "execution_count");

    if (!said || said->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return false;
    *ret = said->via.u64;
    return true;
}

bool past_call_is(const PastCall *call, const char *kind)
{
    Text said = past_call_text(call, "kind");

    return said.size > 0 ? text_equal(said, kind) : strcmp(kind, "python") == 0;
}

/* ---- what became of them ---- */

/* Marks the calls of a branch after that one: nothing of them is left in the variables. */
static void undo(PastCalls *past, uint64_t branch, uint64_t count)
{
    for (size_t i = 0; i < past->n; i++) {
        PastCall *call = &past->calls[i];
        uint64_t own;

        if (call->branch == branch && past_call_is(call, "python") &&
            (!past_call_count(call, &own) || own > count))
            call->undone = true;
    }
}

/* The calls of the other branch take the place of those since it was made: it counted on from there. */
static int commit(PastCalls *past, uint64_t branch, uint64_t other)
{
    _cleanup_(freep) PastCall *moved = calloc(MAX(past->n, (size_t)1), sizeof(*moved));
    uint64_t least = UINT64_MAX, count;
    size_t n = 0, kept = 0;

    if (!moved)
        return -ENOMEM;
    for (size_t i = 0; i < past->n; i++)
        if (past->calls[i].branch == other && past_call_count(&past->calls[i], &count))
            least = MIN(least, count);
    if (least != UINT64_MAX)
        undo(past, branch, least > 0 ? least - 1 : 0);
    for (size_t i = 0; i < past->n; i++) {
        if (past->calls[i].branch != other) {
            past->calls[kept++] = past->calls[i];
            continue;
        }
        moved[n] = past->calls[i];
        moved[n++].branch = branch;
    }
    memcpy(past->calls + kept, moved, n * sizeof(*moved));
    return 0;
}

/* ---- what the controller says ---- */

static bool is_own(const PastCalls *past, const MsgHistory *said)
{
    const msgpack_object *argv = said->program.map ? map_find(said->program.map, "argv") : NULL;
    size_t n = 0;

    if (!argv || argv->type != MSGPACK_OBJECT_ARRAY)
        return false;
    for (; past->own[n]; n++)
        if (n == argv->via.array.size || !text_equal(text_of_object(&argv->via.array.ptr[n]), past->own[n]))
            return false;
    return n == argv->via.array.size;
}

static int make_room(PastCalls *past)
{
    size_t capacity = MAX(2 * past->capacity, (size_t)64);
    PastCall *space;

    if (past->n < past->capacity)
        return 0;
    space = realloc(past->calls, capacity * sizeof(*space));
    if (!space)
        return -ENOMEM;
    past->calls = space;
    past->capacity = capacity;
    return 0;
}

static void undo_what_it_cost(PastCalls *past, const PastCall *call)
{
    Text state = past_call_text(call, "state");
    const msgpack_object_map *back = past_call_map(call, "rolled_back_to");
    const msgpack_object *count = back ? map_find(back, "execution_count") : NULL;

    if (past_call_is(call, "python") && (text_equal(state, "rolled_back") || text_equal(state, "lost")))
        undo(past, call->branch,
             count && count->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? count->via.u64 : 0);
}

static int add_call(PastCalls *past, const MsgHistory *said)
{
    PastCall call = {.branch = said->branch, .code = said->code, .record = said->record.map};

    if (make_room(past) < 0)
        return -ENOMEM;
    if (said->program.map) {
        call.line = command_line(said->program.map);
        if (!call.line)
            return -ENOMEM;
        call.code = text_of(call.line);
    }
    past->calls[past->n++] = call;
    undo_what_it_cost(past, &call);
    return 0;
}

static int add(PastCalls *past, const MsgHistory *said)
{
    if (said->full) {
        past->full = true;
        return 0;
    }
    if (said->committed != NO_UINT)
        return commit(past, said->branch, said->committed);
    if (said->back_to != NO_UINT) {
        undo(past, said->branch, said->back_to);
        return 0;
    }
    return is_own(past, said) ? 0 : add_call(past, said);
}

/* Its place among the pages, which keep it. */
static int keep_page(PastCalls *past, Reply *reply)
{
    Reply *space = realloc(past->pages, (past->n_pages + 1) * sizeof(*space));

    if (!space)
        return -ENOMEM;
    past->pages = space;
    past->pages[past->n_pages++] = *reply;
    *reply = REPLY_NULL;
    return 0;
}

/* *next: where the following page begins, NO_UINT at the end. */
static int read_page(PastCalls *past, LimpetClient *client, const char *session, uint64_t *next)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgExport body = {.session = text_of(session), .next = *next};
    ClientCall call = {.repeatable = true};
    MsgExportReply said;
    int r;

    client_begin(client, &call, MSG_EXPORT, MsgExport, &body);
    r = client_call(client, &call, &reply);
    if (!r)
        r = reply_decode(&said, MsgExportReply, &reply.message.body, &client->problem);
    if (!r)
        r = keep_page(past, &reply);
    for (uint32_t i = 0; !r && i < value_count(&said.history); i++) {
        MsgHistory row;

        value_row(&row, MsgHistory, &said.history, i);
        r = add(past, &row);
    }
    if (!r)
        *next = said.next;
    return r;
}

int past_calls_read(PastCalls *past, LimpetClient *client, const char *session)
{
    uint64_t next = 0;
    int r = 0;

    while (!r && next != NO_UINT)
        r = read_page(past, client, session, &next);
    return r;
}

void past_calls_deinit(PastCalls *past)
{
    for (size_t i = 0; i < past->n; i++)
        free(past->calls[i].line);
    for (size_t i = 0; i < past->n_pages; i++)
        reply_deinit(&past->pages[i]);
    free(past->calls);
    free(past->pages);
}
