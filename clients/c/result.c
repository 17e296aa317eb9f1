#include "clients/c/result.h"

#include <errno.h>
#include <string.h>

#include "clients/c/json.h"

/* ---- displays ---- */

static LimpetValue read_value(const msgpack_object_kv *pair, Arena *arena)
{
    const msgpack_object *value = &pair->val;
    LimpetValue result = {.type = LIMPET_JSON};
    Text text = {0};

    if (value->type == MSGPACK_OBJECT_STR) {
        result.type = LIMPET_TEXT;
        text = (Text){value->via.str.ptr, value->via.str.size};
    } else if (value->type == MSGPACK_OBJECT_BIN) {
        result.type = LIMPET_BYTES;
        text = (Text){value->via.bin.ptr, value->via.bin.size};
    }
    result.mime_type = arena_text(arena, (Text){pair->key.via.str.ptr, pair->key.via.str.size});
    if (result.type == LIMPET_JSON) {
        result.data = arena_json(arena, value, &result.size);
    } else {
        result.data = arena_text(arena, text);
        result.size = text.size;
    }
    return result;
}

static const char *read_metadata(const Value *metadata, Arena *arena)
{
    msgpack_object object = {.type = MSGPACK_OBJECT_MAP};
    size_t size;

    if (metadata->map)
        object.via.map = *metadata->map;
    return arena_json(arena, &object, &size);
}

void display_read(LimpetDisplay *ret, const MsgDisplay *said, Arena *arena)
{
    uint32_t n = said->data.map->size;
    LimpetValue *values = arena_new(arena, n, sizeof(*values));

    for (uint32_t i = 0; values && i < n; i++)
        values[i] = read_value(&said->data.map->ptr[i], arena);
    *ret = (LimpetDisplay){
        .values = values,
        .n_values = n,
        .metadata = read_metadata(&said->metadata, arena),
        .display_id = arena_text(arena, said->display_id),
        .is_result = said->is_result,
    };
}

/* ---- files ---- */

/* File names come as text, or as bytes where they are not UTF-8. */
static Text name_of(const msgpack_object *object)
{
    if (object->type == MSGPACK_OBJECT_STR)
        return (Text){object->via.str.ptr, object->via.str.size};
    if (object->type == MSGPACK_OBJECT_BIN)
        return (Text){object->via.bin.ptr, object->via.bin.size};
    return (Text){0};
}

static bool same_name(Text a, Text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static int names_of(const msgpack_object_kv *pair, const char *field, Text *ret_key, Text *ret_value,
                    Problem *problem)
{
    *ret_key = name_of(&pair->key);
    *ret_value = name_of(&pair->val);
    if (!ret_key->data || !ret_value->data)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the controller answered with %s whose paths are not text", field);
    return 0;
}

/* Both maps are written in the same order; looking elsewhere is for a controller that does not. */
static const msgpack_object *info_of(const msgpack_object_map *info, uint32_t place, Text path)
{
    if (place < info->size && same_name(name_of(&info->ptr[place].key), path))
        return &info->ptr[place].val;
    for (uint32_t i = 0; i < info->size; i++)
        if (same_name(name_of(&info->ptr[i].key), path))
            return &info->ptr[i].val;
    return NULL;
}

/* The published files and the others of a record, in the memory of the arena. */
static int artifacts_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem)
{
    const msgpack_object_map *paths = record->artifacts.map;
    uint32_t n = paths->size;
    LimpetArtifact *artifacts = arena_new(arena, n, sizeof(*artifacts));

    for (uint32_t i = 0; artifacts && i < n; i++) {
        MsgArtifact info;
        const msgpack_object *object;
        Text path, host_path;
        int r = names_of(&paths->ptr[i], "artifacts", &path, &host_path, problem);

        if (r < 0)
            return r;
        body_clear(&info, MsgArtifact);
        object = info_of(record->artifact_info.map, i, path);
        if (object && object->type == MSGPACK_OBJECT_MAP)
            r = reply_decode(&info, MsgArtifact, &object->via.map, problem);
        if (r < 0)
            return r;
        artifacts[i] = (LimpetArtifact){
            .path = arena_text(arena, path),
            .host_path = arena_text(arena, host_path),
            .size = uint_or(info.size, 0),
            .mime_type = arena_text(arena, info.mime_type),
            .sha256 = arena_text(arena, info.sha256),
        };
    }
    ret->artifacts = artifacts;
    ret->n_artifacts = n;
    return 0;
}

static int skipped_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem)
{
    const msgpack_object_map *reasons = record->skipped.map;
    uint32_t n = reasons->size;
    LimpetSkipped *skipped = arena_new(arena, n, sizeof(*skipped));

    for (uint32_t i = 0; skipped && i < n; i++) {
        Text path, reason;
        int r = names_of(&reasons->ptr[i], "skipped files", &path, &reason, problem);

        if (r < 0)
            return r;
        skipped[i] = (LimpetSkipped){arena_text(arena, path), arena_text(arena, reason)};
    }
    ret->skipped = skipped;
    ret->n_skipped = n;
    return 0;
}

/* ---- the record ---- */

/* The public part is what the user sees; the reply holds its memory and the record as it came. */
typedef struct Result {
    LimpetResult record;
    Reply reply;
    msgpack_object_map body;
} Result;

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

static void read_displays(LimpetResult *out, const Value *said, Arena *arena)
{
    uint32_t n = value_count(said);
    LimpetDisplay *displays = arena_new(arena, n, sizeof(*displays));

    for (uint32_t i = 0; displays && i < n; i++) {
        MsgDisplay display;

        value_row(&display, MsgDisplay, said, i);
        display_read(&displays[i], &display, arena);
    }
    out->displays = displays;
    out->n_displays = n;
}

static int read_protection(LimpetProtection *ret, const MsgProtection *said, Arena *arena, Problem *problem)
{
    int level = read_word(said->level, levels, ARRAY_SIZE(levels), "level of protection", problem);

    *ret = (LimpetProtection){
        .checkpoint = level > 0,
        .execution_count = uint_or(said->execution_count, 0),
        .reason = arena_text(arena, said->reason),
    };
    return MIN(level, 0);
}

/* Reads the state of the variables, and their protection. */
static int read_state(LimpetResult *out, const MsgRecord *record, Arena *arena, Problem *problem)
{
    if (record->has_rolled_back_to) {
        out->rolled_back_to = arena_text(arena, record->rolled_back_to.checkpoint);
        out->rolled_back_to_count = record->rolled_back_to.execution_count;
    }
    texts_read(&out->not_restored, &out->n_not_restored, &record->not_restored, arena);
    texts_read(&out->restored, &out->n_restored, &record->restored, arena);
    if (record->has_changed)
        out->changed = changed_read(&record->changed, arena);
    return read_protection(&out->state_protection, &record->state_protection, arena, problem);
}

/* The maps of a fixed shape. */
static void read_details(LimpetResult *out, const MsgRecord *record, Arena *arena)
{
    out->cpu = record->usage.cpu;
    out->peak_memory = record->usage.peak_memory;
    if (record->has_error) {
        out->error_name = arena_text(arena, record->error.name);
        out->error_message = arena_text(arena, record->error.message);
        out->traceback = arena_text(arena, record->error.traceback);
    }
}

static void read_between(LimpetResult *out, const MsgRecord *record, Arena *arena)
{
    if (!record->has_between)
        return;
    out->between_stdout = arena_text(arena, record->between.out);
    out->between_stderr = arena_text(arena, record->between.err);
    out->between_dropped = record->between.dropped;
}

static void read_plain(LimpetResult *out, const MsgRecord *record, int status, int state, Arena *arena)
{
    out->run_id = arena_text(arena, record->run_id);
    out->session = arena_text(arena, record->session);
    out->engine = arena_text(arena, record->engine);
    out->execution_count = uint_or(record->execution_count, 0);
    out->status = (LimpetStatus)status;
    out->status_name = statuses[status];
    out->state = (LimpetState)state;
    out->epoch = record->epoch;
    out->stdout_text = arena_text(arena, record->out);
    out->stderr_text = arena_text(arena, record->err);
    out->stdout_size = record->out.size;
    out->stderr_size = record->err.size;
    out->stdout_bytes = record->stdout_bytes;
    out->stderr_bytes = record->stderr_bytes;
    out->truncated = record->truncated;
    out->stdout_file = arena_text(arena, record->stdout_file);
    out->stderr_file = arena_text(arena, record->stderr_file);
    out->result = arena_text(arena, record->result);
    out->has_signal = record->signal != NO_INT;
    out->signal = out->has_signal ? (int)record->signal : 0;
    out->has_exit_code = record->exit_code != NO_INT;
    out->exit_code = out->has_exit_code ? (int)record->exit_code : 0;
    out->duration = record->duration;
    out->kind = record->kind.data ? arena_text(arena, record->kind) : "python";
}

static int read_record(LimpetResult *out, const msgpack_object_map *body, Arena *arena, Problem *problem)
{
    MsgRecord record;
    int status, state, r;

    r = reply_decode(&record, MsgRecord, body, problem);
    if (r < 0)
        return r;
    status = read_word(record.status, statuses, ARRAY_SIZE(statuses), "status", problem);
    state = status < 0 ? status : read_word(record.state, states, ARRAY_SIZE(states), "state", problem);
    if (state < 0)
        return state;
    if ((status == LIMPET_OK) == record.has_error)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the status and the error in the answer of the controller contradict each other");
    read_plain(out, &record, status, state, arena);
    read_details(out, &record, arena);
    read_displays(out, &record.displays, arena);
    read_between(out, &record, arena);
    r = read_state(out, &record, arena, problem);
    if (!r)
        r = artifacts_read(out, &record, arena, problem);
    if (!r)
        r = skipped_read(out, &record, arena, problem);
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
    r = read_record(&result->record, &result->body, &arena, problem);
    if (!r && arena.failed)
        r = -ENOMEM;
    if (r < 0) {
        limpet_result_free(&result->record);
        return r;
    }
    *ret = &result->record;
    return 0;
}

Arena result_arena(LimpetResult *record)
{
    return (Arena){.zone = container_of(record, Result, record)->reply.message.zone};
}

static void set_text(msgpack_object *object, const char *text)
{
    size_t size = strlen(text);

    if (utf8_valid(text, size))
        *object = (msgpack_object){.type = MSGPACK_OBJECT_STR, .via.str = {(uint32_t)size, text}};
    else
        *object = (msgpack_object){.type = MSGPACK_OBJECT_BIN, .via.bin = {(uint32_t)size, text}};
}

/* Pairs of text `names`, each at `size` bytes from the one before. */
static int retell_map(Result *result, const char *field, const void *rows, size_t n, size_t size)
{
    Arena arena = result_arena(&result->record);
    msgpack_object_kv *pairs = arena_new(&arena, n, sizeof(*pairs));

    if (!pairs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *const *pair = (const void *)((const char *)rows + i * size);

        set_text(&pairs[i].key, pair[0]);
        set_text(&pairs[i].val, pair[1]);
    }
    for (uint32_t i = 0; i < result->body.size; i++) {
        const msgpack_object_str *key = &result->body.ptr[i].key.via.str;

        if (text_equal((Text){key->ptr, key->size}, field))
            result->body.ptr[i].val =
                (msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = {(uint32_t)n, pairs}};
    }
    return 0;
}

_Static_assert(offsetof(LimpetArtifact, host_path) == sizeof(char *) &&
                   offsetof(LimpetSkipped, reason) == sizeof(char *),
               "a path, and then what it is mapped to");

int result_retell(LimpetResult *record)
{
    Result *result = container_of(record, Result, record);
    int r = retell_map(result, "artifacts", record->artifacts, record->n_artifacts, sizeof(LimpetArtifact));

    return r ? r : retell_map(result, "skipped", record->skipped, record->n_skipped, sizeof(LimpetSkipped));
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
