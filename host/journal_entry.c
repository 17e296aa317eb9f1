#include "host/journal_entry.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define SIZE_BYTES    4u
#define INSTANCE_SIZE 16u
#define CONTAINER_MAX 63u
#define LINK_MAX      64u
#define ENGINE_MAX    15u
#define REASON_MAX    PROBLEM_TEXT_MAX

static const char *const names[ENTRY_KINDS] = {
    [ENTRY_SESSION] = "session", [ENTRY_READY] = "ready",
    [ENTRY_BRANCH] = "branch",   [ENTRY_BRANCH_CLOSED] = "branch_closed",
    [ENTRY_CALL] = "call",       [ENTRY_FILES] = "files",
    [ENTRY_CLOSING] = "closing", [ENTRY_ENDED] = "ended",
};

/* ---- writing ---------------------------------------------------------------------------------------------
 */

/* An entry in the making: its size is known when it has ended. */
typedef struct EntryWriter {
    Buf *batch;
    size_t mark;
    int error; /* of making room for its size */
    Writer w;
} EntryWriter;

static Writer *begin(EntryWriter *entry, Buf *batch, EntryKind kind, size_t fields)
{
    static const uint8_t nothing[SIZE_BYTES];

    entry->batch = batch;
    entry->mark = batch->size;
    entry->error = buf_append(batch, nothing, SIZE_BYTES);
    writer_init(&entry->w, batch);
    write_map(&entry->w, fields + 1);
    write_key(&entry->w, "entry");
    write_text(&entry->w, names[kind]);
    return &entry->w;
}

/* With the value of the last key, where that is encoded already. */
static int end(EntryWriter *entry, const Buf *value)
{
    Buf *batch = entry->batch;
    int r = writer_finish(&entry->w);
    size_t size;

    if (r == 0)
        r = entry->error;
    if (r == 0 && value)
        r = buf_append(batch, buf_head(value), value->size);
    size = batch->size - entry->mark - SIZE_BYTES;
    if (r == 0 && size > UINT32_MAX)
        r = -ENOBUFS;
    if (r < 0) {
        batch->size = entry->mark;
        return r;
    }
    for (unsigned i = 0; i < SIZE_BYTES; i++)
        buf_head(batch)[entry->mark + i] = (uint8_t)(size >> (8 * (SIZE_BYTES - 1 - i)));
    return 0;
}

static void write_field(Writer *w, const char *key, Text text)
{
    write_key(w, key);
    write_text_n(w, text.data, text.size);
}

int journal_write_session(Buf *batch, const JournalSession *session)
{
    EntryWriter entry;
    Writer *w = begin(&entry, batch, ENTRY_SESSION, 10);

    write_field(w, "name", session->name);
    write_field(w, "instance", session->instance);
    write_field(w, "directory", session->directory);
    write_key(w, "ephemeral");
    write_bool(w, session->ephemeral);
    write_field(w, "engine", session->engine);
    write_field(w, "container", session->container);
    write_field(w, "link", session->link);
    write_key(w, "secret");
    write_bytes(w, session->secret.data, session->secret.size);
    write_key(w, "created");
    write_double(w, session->created);
    write_key(w, "options");
    return end(&entry, session->encoded_options);
}

int journal_write_branch(Buf *batch, const JournalBranch *branch)
{
    EntryWriter entry;
    Writer *w = begin(&entry, batch, ENTRY_BRANCH, 4);

    write_key(w, "branch");
    write_uint(w, branch->branch);
    write_field(w, "name", branch->name);
    write_field(w, "instance", branch->instance);
    write_key(w, "created");
    write_double(w, branch->created);
    return end(&entry, NULL);
}

int journal_write_branch_closed(Buf *batch, uint64_t branch)
{
    EntryWriter entry;
    Writer *w = begin(&entry, batch, ENTRY_BRANCH_CLOSED, 1);

    write_key(w, "branch");
    write_uint(w, branch);
    return end(&entry, NULL);
}

int journal_write_end(Buf *batch, const JournalEnd *end_of)
{
    EntryWriter entry;
    Writer *w = begin(&entry, batch, ENTRY_ENDED, 4);

    write_field(w, "name", end_of->name);
    write_field(w, "instance", end_of->instance);
    write_field(w, "reason", end_of->reason);
    write_key(w, "time");
    write_double(w, end_of->time);
    return end(&entry, NULL);
}

/* The record is bytes here: it may be as deep and wide as a message may be, and is passed on unread. */
int journal_write_call(Buf *batch, const JournalCall *call)
{
    EntryWriter entry;
    Writer *w = begin(&entry, batch, ENTRY_CALL, 5);

    write_field(w, "run_id", call->run_id);
    write_key(w, "code_hash");
    write_uint(w, call->code_hash);
    write_key(w, "branch");
    write_uint(w, call->branch);
    write_key(w, "oom_kills");
    write_uint(w, call->oom_kills);
    write_key(w, "record");
    write_bytes(w, call->record.data, call->record.size);
    return end(&entry, NULL);
}

int journal_write_files(Buf *batch, const Buf *files)
{
    EntryWriter entry;
    Writer *w = begin(&entry, batch, ENTRY_FILES, 1);

    write_key(w, "files");
    return end(&entry, files);
}

int journal_write_plain(Buf *batch, EntryKind kind)
{
    EntryWriter entry;

    begin(&entry, batch, kind, 0);
    return end(&entry, NULL);
}

/* ---- reading ---------------------------------------------------------------------------------------------
 */

/* Every entry has the name of its kind; the fields of one kind follow it in its table. */
typedef struct Plain {
    Text entry;
} Plain;

static const Field plain_fields[] = {FIELD(FIELD_TEXT, Plain, entry, true, 32)};

typedef struct SessionEntry {
    Text entry;
    JournalSession session;
} SessionEntry;

#define SESSION_FIELD(type_, member, max_)                                                                   \
    {                                                                                                        \
        .name = #member, .type = type_, .need = FIELD_REQUIRED,                                              \
        .offset = offsetof(SessionEntry, session.member), .max = max_                                        \
    }

static const Field session_fields[] = {
    FIELD(FIELD_TEXT, SessionEntry, entry, true, 32),
    SESSION_FIELD(FIELD_TEXT, name, LIMIT_SESSION_NAME),
    SESSION_FIELD(FIELD_TEXT, instance, INSTANCE_SIZE),
    SESSION_FIELD(FIELD_TEXT, directory, NAME_MAX),
    SESSION_FIELD(FIELD_BOOL, ephemeral, 0),
    SESSION_FIELD(FIELD_TEXT, engine, ENGINE_MAX),
    SESSION_FIELD(FIELD_TEXT, container, CONTAINER_MAX),
    SESSION_FIELD(FIELD_TEXT, link, LINK_MAX),
    SESSION_FIELD(FIELD_BYTES, secret, GUEST_SECRET_SIZE),
    SESSION_FIELD(FIELD_DOUBLE, created, 0),
    SESSION_FIELD(FIELD_MAP, options, 0),
};

typedef struct BranchEntry {
    Text entry;
    JournalBranch branch;
} BranchEntry;

#define BRANCH_FIELD(type_, member, max_)                                                                    \
    {                                                                                                        \
        .name = #member, .type = type_, .need = FIELD_REQUIRED,                                              \
        .offset = offsetof(BranchEntry, branch.member), .max = max_                                          \
    }

static const Field branch_fields[] = {
    FIELD(FIELD_TEXT, BranchEntry, entry, true, 32),
    BRANCH_FIELD(FIELD_UINT, branch, 0),
    BRANCH_FIELD(FIELD_TEXT, name, LIMIT_SESSION_PATH),
    BRANCH_FIELD(FIELD_TEXT, instance, INSTANCE_SIZE),
    BRANCH_FIELD(FIELD_DOUBLE, created, 0),
};

static const Field branch_closed_fields[] = {
    FIELD(FIELD_TEXT, BranchEntry, entry, true, 32),
    BRANCH_FIELD(FIELD_UINT, branch, 0),
};

typedef struct CallEntry {
    Text entry;
    JournalCall call;
} CallEntry;

#define CALL_FIELD(type_, member, max_)                                                                      \
    {                                                                                                        \
        .name = #member, .type = type_, .need = FIELD_REQUIRED, .offset = offsetof(CallEntry, call.member),  \
        .max = max_                                                                                          \
    }

static const Field call_fields[] = {
    FIELD(FIELD_TEXT, CallEntry, entry, true, 32), CALL_FIELD(FIELD_TEXT, run_id, LIMIT_RUN_ID),
    CALL_FIELD(FIELD_UINT, code_hash, 0),          CALL_FIELD(FIELD_UINT, branch, 0),
    CALL_FIELD(FIELD_UINT, oom_kills, 0),          CALL_FIELD(FIELD_BYTES, record, 0),
};

typedef struct FilesEntry {
    Text entry;
    const msgpack_object_array *files;
} FilesEntry;

static const Field files_fields[] = {
    FIELD(FIELD_TEXT, FilesEntry, entry, true, 32),
    FIELD(FIELD_ARRAY, FilesEntry, files, true, 0),
};

typedef struct EndEntry {
    Text entry;
    JournalEnd end;
} EndEntry;

#define END_FIELD(type_, member, max_)                                                                       \
    {                                                                                                        \
        .name = #member, .type = type_, .need = FIELD_REQUIRED, .offset = offsetof(EndEntry, end.member),    \
        .max = max_                                                                                          \
    }

static const Field end_fields[] = {
    FIELD(FIELD_TEXT, EndEntry, entry, true, 32),
    END_FIELD(FIELD_TEXT, name, LIMIT_SESSION_PATH),
    END_FIELD(FIELD_TEXT, instance, INSTANCE_SIZE),
    END_FIELD(FIELD_TEXT, reason, REASON_MAX),
    END_FIELD(FIELD_DOUBLE, time, 0),
};

/* One component of a path, or text that becomes part of one. */
static bool is_name(Text text)
{
    return text.size > 0 && text.data[0] != '.' && !memchr(text.data, '/', text.size) &&
           !memchr(text.data, '\0', text.size);
}

static int bad(Problem *problem, const char *what)
{
    return problem_set(problem, ERR_BAD_REQUEST, "a journal entry with %s that cannot be", what);
}

#define DECODE(target, fields) fields_decode(target, fields, ARRAY_SIZE(fields), body, problem)

static int decode_session(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    SessionEntry entry = {0};
    const JournalSession *session = &entry.session;

    if (DECODE(&entry, session_fields) < 0)
        return -EPROTO;
    if (!is_name(session->name) || !is_name(session->directory) || !is_name(session->container) ||
        !is_name(session->link) || !is_name(session->instance) || !is_name(session->engine) ||
        session->secret.size != GUEST_SECRET_SIZE)
        return bad(problem, "a name or a secret");
    ret->session = *session;
    return 0;
}

static int decode_branch(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    BranchEntry entry = {0};

    if (DECODE(&entry, branch_fields) < 0)
        return -EPROTO;
    if (entry.branch.branch == 0 || entry.branch.name.size == 0 || !is_name(entry.branch.instance) ||
        memchr(entry.branch.name.data, '\0', entry.branch.name.size))
        return bad(problem, "a branch");
    ret->branch = entry.branch;
    return 0;
}

static int decode_branch_closed(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    BranchEntry entry = {0};

    if (DECODE(&entry, branch_closed_fields) < 0)
        return -EPROTO;
    ret->branch = entry.branch;
    return 0;
}

static int decode_call(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    CallEntry entry = {0};

    if (DECODE(&entry, call_fields) < 0)
        return -EPROTO;
    if (!is_name(entry.call.run_id) || entry.call.run_id.size != LIMIT_RUN_ID || entry.call.record.size == 0)
        return bad(problem, "a call");
    ret->call = entry.call;
    return 0;
}

static int decode_files(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    FilesEntry entry = {0};

    if (DECODE(&entry, files_fields) < 0)
        return -EPROTO;
    ret->files = entry.files;
    return 0;
}

static int decode_end(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    EndEntry entry = {0};

    if (DECODE(&entry, end_fields) < 0)
        return -EPROTO;
    ret->end = entry.end;
    return 0;
}

static int decode_plain(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    Plain entry;

    return DECODE(&entry, plain_fields);
}

static int decode_body(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    static int (*const decoders[ENTRY_KINDS])(JournalEntry *, const msgpack_object_map *, Problem *) = {
        [ENTRY_SESSION] = decode_session, [ENTRY_READY] = decode_plain,
        [ENTRY_BRANCH] = decode_branch,   [ENTRY_BRANCH_CLOSED] = decode_branch_closed,
        [ENTRY_CALL] = decode_call,       [ENTRY_FILES] = decode_files,
        [ENTRY_CLOSING] = decode_plain,   [ENTRY_ENDED] = decode_end,
    };
    const msgpack_object *name = map_find(body, "entry");

    if (!name || name->type != MSGPACK_OBJECT_STR)
        return bad(problem, "a kind");
    for (EntryKind kind = 0; kind < ENTRY_KINDS; kind++)
        if (text_equal((Text){name->via.str.ptr, name->via.str.size}, names[kind])) {
            ret->kind = kind;
            return decoders[kind](ret, body, problem);
        }
    return bad(problem, "a kind");
}

int journal_entry_decode(JournalEntry *ret, const void *bytes, size_t size, Problem *problem)
{
    JournalEntry entry = {0};
    int r;

    if (wire_check(bytes, size) < 0)
        return bad(problem, "bytes");
    msgpack_unpacked_init(&entry.unpacked);
    if (msgpack_unpack_next(&entry.unpacked, bytes, size, NULL) != MSGPACK_UNPACK_SUCCESS ||
        entry.unpacked.data.type != MSGPACK_OBJECT_MAP)
        r = bad(problem, "a form");
    else
        r = decode_body(&entry, &entry.unpacked.data.via.map, problem);
    if (r < 0) {
        msgpack_unpacked_destroy(&entry.unpacked);
        return -EPROTO;
    }
    *ret = entry;
    return 0;
}

void journal_entry_deinit(JournalEntry *entry)
{
    msgpack_unpacked_destroy(&entry->unpacked);
}
