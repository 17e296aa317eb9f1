#include "clients/c/result.h"

#include <errno.h>
#include <string.h>

#include "clients/c/json.h"
#include "clients/c/variables.h"

/* The public part is what the user sees; the reply holds its memory and the record as it came. */
typedef struct Result {
    LimpetResult record;
    Reply reply;
    msgpack_object_map body;
} Result;

typedef struct Record {
    Text run_id, session, engine, status, state, stdout_text, stderr_text, stdout_file, stderr_file, result;
    uint64_t execution_count, epoch, stdout_bytes, stderr_bytes;
    int64_t signal, exit_code;
    bool truncated;
    double duration;
    const msgpack_object_array *not_restored, *displays;
    const msgpack_object_map *rolled_back_to, *state_protection, *changed, *error, *artifacts, *artifact_info,
        *skipped, *usage;
} Record;

typedef struct RolledBackTo {
    Text checkpoint;
    uint64_t execution_count;
} RolledBackTo;

typedef struct Protection {
    Text level, reason;
    uint64_t execution_count;
} Protection;

typedef struct ErrorInfo {
    Text name, message, traceback;
} ErrorInfo;

typedef struct Usage {
    double cpu;
    uint64_t peak_memory;
} Usage;

#define NO_NUMBER INT64_MIN

/* A stream's text has the name of a macro of stdio.h in C, and another one here. */
#define STREAM(name_, member_)                                                                               \
    {                                                                                                        \
        .name = name_, .type = FIELD_TEXT, .need = FIELD_REQUIRED, .offset = offsetof(Record, member_)       \
    }

static const Field record_fields[] = {
    FIELD(FIELD_TEXT, Record, run_id, true, 0),
    FIELD(FIELD_TEXT, Record, session, false, 0),
    FIELD(FIELD_TEXT, Record, engine, true, 0),
    FIELD(FIELD_UINT, Record, execution_count, true, 0),
    FIELD(FIELD_TEXT, Record, status, true, 0),
    FIELD(FIELD_TEXT, Record, state, true, 0),
    FIELD(FIELD_MAP, Record, rolled_back_to, false, 0),
    FIELD(FIELD_ARRAY, Record, not_restored, true, 0),
    FIELD(FIELD_MAP, Record, state_protection, true, 0),
    FIELD(FIELD_MAP, Record, changed, false, 0),
    FIELD(FIELD_UINT, Record, epoch, true, 0),
    STREAM("stdout", stdout_text),
    STREAM("stderr", stderr_text),
    FIELD(FIELD_UINT, Record, stdout_bytes, true, 0),
    FIELD(FIELD_UINT, Record, stderr_bytes, true, 0),
    FIELD(FIELD_BOOL, Record, truncated, true, 0),
    FIELD(FIELD_TEXT, Record, stdout_file, false, 0),
    FIELD(FIELD_TEXT, Record, stderr_file, false, 0),
    FIELD(FIELD_TEXT, Record, result, false, 0),
    FIELD(FIELD_ARRAY, Record, displays, true, 0),
    FIELD(FIELD_MAP, Record, error, false, 0),
    FIELD(FIELD_INT, Record, signal, false, 0),
    FIELD(FIELD_INT, Record, exit_code, false, 0),
    FIELD(FIELD_MAP, Record, artifacts, true, 0),
    FIELD(FIELD_MAP, Record, artifact_info, true, 0),
    FIELD(FIELD_MAP, Record, skipped, true, 0),
    FIELD(FIELD_DOUBLE, Record, duration, true, 0),
    FIELD(FIELD_MAP, Record, usage, true, 0),
};

static const Field rolled_back_to_fields[] = {
    FIELD(FIELD_TEXT, RolledBackTo, checkpoint, false, 0),
    FIELD(FIELD_UINT, RolledBackTo, execution_count, true, 0),
};

static const Field protection_fields[] = {
    FIELD(FIELD_TEXT, Protection, level, true, 0),
    FIELD(FIELD_UINT, Protection, execution_count, false, 0),
    FIELD(FIELD_TEXT, Protection, reason, false, 0),
};

static const Field error_fields[] = {
    FIELD(FIELD_TEXT, ErrorInfo, name, true, 0),
    FIELD(FIELD_TEXT, ErrorInfo, message, true, 0),
    FIELD(FIELD_TEXT, ErrorInfo, traceback, false, 0),
};

static const Field usage_fields[] = {
    FIELD(FIELD_DOUBLE, Usage, cpu, false, 0),
    FIELD(FIELD_UINT, Usage, peak_memory, false, 0),
};

static const char *const statuses[] = {
    [LIMPET_OK] = "ok",           [LIMPET_ERROR] = "error",
    [LIMPET_TIMEOUT] = "timeout", [LIMPET_INTERRUPTED] = "interrupted",
    [LIMPET_EXITED] = "exited",   [LIMPET_CRASHED] = "crashed",
    [LIMPET_OOM] = "oom",         [LIMPET_FAILED] = "failed",
};

static const char *const states[] = {
    [LIMPET_KEPT] = "kept",
    [LIMPET_ROLLED_BACK] = "rolled_back",
    [LIMPET_LOST] = "lost",
};

static const char *const levels[] = {"none", "checkpoint"};

/* The place of `word` among `words`. */
static int read_word(Text word, const char *const *words, size_t n, const char *field, Problem *problem)
{
    for (size_t i = 0; i < n; i++)
        if (text_equal(word, words[i]))
            return (int)i;
    return problem_set(problem, ERR_PROTOCOL_MISMATCH, "the controller answered with an unknown %s '%.*s'",
                       field, (int)MIN(word.size, (size_t)64), word.data);
}

static int read_displays(Result *result, const Record *record, Arena *arena, Problem *problem)
{
    uint32_t n = record->displays->size;
    LimpetDisplay *displays = arena_new(arena, n, sizeof(*displays));

    for (uint32_t i = 0; displays && i < n; i++) {
        const msgpack_object *object = &record->displays->ptr[i];
        int r;

        if (object->type != MSGPACK_OBJECT_MAP)
            return problem_set(problem, ERR_PROTOCOL_MISMATCH, "a display is not a map");
        r = display_read(&displays[i], NULL, &object->via.map, arena, problem);
        if (r < 0)
            return r;
    }
    result->record.displays = displays;
    result->record.n_displays = n;
    return 0;
}

static int read_protection(LimpetProtection *ret, const msgpack_object_map *map, Arena *arena,
                           Problem *problem)
{
    Protection protection = {0};
    int level, r = reply_fields(&protection, protection_fields, ARRAY_SIZE(protection_fields), map, problem);

    if (r < 0)
        return r;
    level = read_word(protection.level, levels, ARRAY_SIZE(levels), "level of protection", problem);
    *ret = (LimpetProtection){
        .checkpoint = level > 0,
        .execution_count = protection.execution_count,
        .reason = arena_text(arena, protection.reason),
    };
    return MIN(level, 0);
}

/* What became of the variables, and what would have. */
static int read_state(Result *result, const Record *record, Arena *arena, Problem *problem)
{
    LimpetResult *out = &result->record;
    RolledBackTo back = {0};
    int r = 0;

    if (record->rolled_back_to)
        r = reply_fields(&back, rolled_back_to_fields, ARRAY_SIZE(rolled_back_to_fields),
                         record->rolled_back_to, problem);
    out->rolled_back_to = arena_text(arena, back.checkpoint);
    out->rolled_back_to_count = back.execution_count;
    if (!r)
        r = texts_read(&out->not_restored, &out->n_not_restored, record->not_restored, arena, problem);
    if (!r)
        r = read_protection(&out->state_protection, record->state_protection, arena, problem);
    if (!r && record->changed)
        r = changed_read(&out->changed, record->changed, arena, problem);
    return r;
}

/* The maps of a fixed shape. */
static int read_details(Result *result, const Record *record, Arena *arena, Problem *problem)
{
    LimpetResult *out = &result->record;
    ErrorInfo error = {0};
    Usage usage = {0};
    int r = reply_fields(&usage, usage_fields, ARRAY_SIZE(usage_fields), record->usage, problem);

    if (!r && record->error)
        r = reply_fields(&error, error_fields, ARRAY_SIZE(error_fields), record->error, problem);
    if (r < 0)
        return r;
    out->cpu = usage.cpu;
    out->peak_memory = usage.peak_memory;
    if (record->error) {
        out->error_name = arena_text(arena, error.name);
        out->error_message = arena_text(arena, error.message);
        out->traceback = error.traceback.data ? arena_text(arena, error.traceback) : "";
    }
    return 0;
}

static void read_plain(LimpetResult *out, const Record *record, int status, int state, Arena *arena)
{
    out->run_id = arena_text(arena, record->run_id);
    out->session = arena_text(arena, record->session);
    out->engine = arena_text(arena, record->engine);
    out->execution_count = record->execution_count;
    out->status = (LimpetStatus)status;
    out->status_name = statuses[status];
    out->state = (LimpetState)state;
    out->epoch = record->epoch;
    out->stdout_text = arena_text(arena, record->stdout_text);
    out->stderr_text = arena_text(arena, record->stderr_text);
    out->stdout_size = record->stdout_text.size;
    out->stderr_size = record->stderr_text.size;
    out->stdout_bytes = record->stdout_bytes;
    out->stderr_bytes = record->stderr_bytes;
    out->truncated = record->truncated;
    out->stdout_file = arena_text(arena, record->stdout_file);
    out->stderr_file = arena_text(arena, record->stderr_file);
    out->result = arena_text(arena, record->result);
    out->has_signal = record->signal != NO_NUMBER;
    out->signal = out->has_signal ? (int)record->signal : 0;
    out->has_exit_code = record->exit_code != NO_NUMBER;
    out->exit_code = out->has_exit_code ? (int)record->exit_code : 0;
    out->duration = record->duration;
}

static int read_record(Result *result, const msgpack_object_map *body, Arena *arena, Problem *problem)
{
    Record record = {.signal = NO_NUMBER, .exit_code = NO_NUMBER};
    int status, state, r;

    r = reply_fields(&record, record_fields, ARRAY_SIZE(record_fields), body, problem);
    if (r < 0)
        return r;
    status = read_word(record.status, statuses, ARRAY_SIZE(statuses), "status", problem);
    state = status < 0 ? status : read_word(record.state, states, ARRAY_SIZE(states), "state", problem);
    if (state < 0)
        return state;
    if ((status == LIMPET_OK) != !record.error)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the controller answered with a status and an error that contradict each other");
    read_plain(&result->record, &record, status, state, arena);
    r = read_details(result, &record, arena, problem);
    if (!r)
        r = read_state(result, &record, arena, problem);
    if (!r)
        r = read_displays(result, &record, arena, problem);
    if (!r)
        r = artifacts_read(&result->record, record.artifacts, record.artifact_info, arena, problem);
    if (!r)
        r = skipped_read(&result->record, record.skipped, arena, problem);
    return r;
}

int result_new(LimpetResult **ret, Reply *reply, const msgpack_object_map *record, Problem *problem)
{
    Result *result = calloc(1, sizeof(*result));
    Arena arena = {.zone = reply->message.zone};
    int r;

    if (!result)
        return -ENOMEM;
    result->body = *record;
    result->reply = *reply;
    *reply = REPLY_NULL;
    r = read_record(result, &result->body, &arena, problem);
    if (!r && arena.failed)
        r = -ENOMEM;
    if (r < 0) {
        limpet_result_free(&result->record);
        return r;
    }
    *ret = &result->record;
    return 0;
}

void limpet_result_free(LimpetResult *record)
{
    Result *result = container_of(record, Result, record);

    if (!record)
        return;
    reply_deinit(&result->reply);
    free(result);
}

static int write_field(Buf *json, const msgpack_object_kv *pair, bool first)
{
    /* Only displays have binary values; all other bytes of a record are file names. */
    const msgpack_object_str *key = &pair->key.via.str;
    JsonBytes bytes = text_equal((Text){key->ptr, key->size}, "displays") ? JSON_BASE64 : JSON_PATH;
    int r = first ? 0 : buf_append(json, ", ", 2);

    if (!r)
        r = json_write(json, &pair->key, JSON_PATH);
    if (!r)
        r = buf_append(json, ": ", 2);
    return r ? r : json_write(json, &pair->val, bytes);
}

char *limpet_result_json(const LimpetResult *record)
{
    const Result *result = container_of(record, const Result, record);
    _cleanup_(buf_deinit) Buf json = BUF_NULL;
    int r = buf_append(&json, "{", 1);

    for (uint32_t i = 0; i < result->body.size && !r; i++)
        r = write_field(&json, &result->body.ptr[i], i == 0);
    if (!r)
        r = buf_append(&json, "}", 1);
    return r ? NULL : text_dup((Text){(const char *)buf_head(&json), json.size});
}
