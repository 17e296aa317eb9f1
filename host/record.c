#include "host/record.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "host/display.h"
#include "host/envelope.h"

static const Field executed_fields[] = {
    FIELD(FIELD_TEXT, Executed, run_id, true, LIMIT_RUN_ID),
    FIELD(FIELD_UINT, Executed, code_hash, true, 0),
    FIELD(FIELD_UINT, Executed, branch, true, 0),
    FIELD(FIELD_TEXT, Executed, status, true, 16),
    FIELD(FIELD_TEXT, Executed, state, true, 16),
    FIELD(FIELD_MAP, Executed, rolled_back_to, false, 0),
    FIELD(FIELD_ARRAY, Executed, not_restored, false, 0),
    FIELD(FIELD_MAP, Executed, state_protection, false, 0),
    FIELD(FIELD_MAP, Executed, changed, false, 0),
    FIELD(FIELD_UINT, Executed, epoch, true, 0),
    FIELD(FIELD_UINT, Executed, execution_count, true, 0),
    {.name = "stdout",
     .type = FIELD_TEXT,
     .need = FIELD_REQUIRED,
     .offset = offsetof(Executed, out),
     .max = LIMIT_TEXT},
    {.name = "stderr",
     .type = FIELD_TEXT,
     .need = FIELD_REQUIRED,
     .offset = offsetof(Executed, err),
     .max = LIMIT_TEXT},
    FIELD(FIELD_UINT, Executed, stdout_bytes, true, 0),
    FIELD(FIELD_UINT, Executed, stderr_bytes, true, 0),
    FIELD(FIELD_BOOL, Executed, truncated, true, 0),
    FIELD(FIELD_TEXT, Executed, stdout_file, false, LIMIT_PATH),
    FIELD(FIELD_TEXT, Executed, stderr_file, false, LIMIT_PATH),
    FIELD(FIELD_TEXT, Executed, result, false, LIMIT_TEXT),
    FIELD(FIELD_ARRAY, Executed, displays, true, 0),
    FIELD(FIELD_MAP, Executed, error, false, 0),
    FIELD(FIELD_OBJECT, Executed, signal, false, 0),
    FIELD(FIELD_OBJECT, Executed, exit_code, false, 0),
    FIELD(FIELD_DOUBLE, Executed, duration, true, 0),
    FIELD(FIELD_MAP, Executed, usage, true, 0),
};

static bool one_of(Text text, const char *const *names)
{
    for (; *names; names++)
        if (text_equal(text, *names))
            return true;
    return false;
}

static bool is_text(const msgpack_object *object)
{
    return object && object->type == MSGPACK_OBJECT_STR;
}

static bool is_integer_or_nil(const msgpack_object *object)
{
    return !object || object->type == MSGPACK_OBJECT_NIL || object->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
           object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
}

static bool error_valid(const msgpack_object_map *error)
{
    return !error || (error->size == 3 && is_text(map_find(error, "name")) &&
                      is_text(map_find(error, "message")) && is_text(map_find(error, "traceback")));
}

static int decode_usage(Executed *executed, Problem *problem)
{
    static const Field fields[] = {
        FIELD(FIELD_DOUBLE, Executed, cpu, true, 0),
        FIELD(FIELD_UINT, Executed, peak_memory, true, 0),
    };

    return fields_decode(executed, fields, ARRAY_SIZE(fields), executed->usage, problem);
}

/* What became of the variables. */
static int decode_state(Executed *executed, Problem *problem)
{
    int r = 0;

    if ((executed->rolled_back_to != NULL) != text_equal(executed->state, "rolled_back"))
        return problem_set(problem, ERR_BAD_REQUEST, "executed: rolled_back_to does not go with state");
    if (executed->rolled_back_to)
        r = rolled_back_decode(&executed->rolled_back, executed->rolled_back_to, problem);
    if (r == 0 && executed->not_restored)
        r = texts_check(executed->not_restored, LIMIT_NOT_RESTORED, LIMIT_NOTE, "not_restored", problem);
    if (r == 0 && executed->state_protection)
        r = state_protection_decode(&executed->protection, executed->state_protection, problem);
    if (r == 0 && executed->changed)
        r = changed_decode(&executed->changes, executed->changed, problem);
    return r;
}

int record_decode(Executed *ret, const msgpack_object_map *body, Problem *problem)
{
    static const char *const statuses[] = {"ok",     "error",   "timeout", "interrupted",
                                           "exited", "crashed", "failed",  NULL};
    static const char *const states[] = {"kept", "rolled_back", "lost", NULL};
    Executed executed = {0};
    int r = fields_decode(&executed, executed_fields, ARRAY_SIZE(executed_fields), body, problem);

    if (r < 0)
        return r;
    if (!one_of(executed.status, statuses) || !one_of(executed.state, states))
        return problem_set(problem, ERR_BAD_REQUEST, "executed: unknown status or state");
    if (text_equal(executed.status, "ok") == (executed.error != NULL) || !error_valid(executed.error) ||
        !is_integer_or_nil(executed.signal) || !is_integer_or_nil(executed.exit_code))
        return problem_set(problem, ERR_BAD_REQUEST, "executed: error, signal or exit_code are malformed");
    r = displays_check(executed.displays, problem);
    if (r == 0)
        r = decode_usage(&executed, problem);
    if (r == 0)
        r = decode_state(&executed, problem);
    if (r == 0)
        *ret = executed;
    return r;
}

bool record_was_killed(const Executed *executed)
{
    const msgpack_object *signal = executed->signal;

    return text_equal(executed->status, "crashed") &&
           (!signal || signal->type == MSGPACK_OBJECT_NIL ||
            (signal->type == MSGPACK_OBJECT_POSITIVE_INTEGER && signal->via.u64 == SIGKILL));
}

static void write_number_or_nil(Writer *w, const char *key, const msgpack_object *object)
{
    write_key(w, key);
    write_object(w, object);
}

static void write_error(Writer *w, const char *name, const char *message)
{
    write_key(w, "error");
    write_map(w, 3);
    write_key(w, "name");
    write_text(w, name);
    write_key(w, "message");
    write_text(w, message);
    write_key(w, "traceback");
    write_text(w, "");
}

static void write_artifacts(Writer *w, const ArtifactList *list, size_t published)
{
    size_t n = list ? list->n : 0;

    write_key(w, "artifacts");
    write_map(w, published);
    for (size_t i = 0; i < n; i++)
        if (!list->entries[i].skipped) {
            write_name(w, list->entries[i].path);
            write_text(w, list->entries[i].host_path);
        }
    write_key(w, "artifact_info");
    write_map(w, published);
    for (size_t i = 0; i < n; i++)
        if (!list->entries[i].skipped) {
            write_name(w, list->entries[i].path);
            write_map(w, 3);
            write_key(w, "size");
            write_uint(w, list->entries[i].size);
            write_key(w, "mime_type");
            write_text(w, list->entries[i].mime_type);
            write_key(w, "sha256");
            write_text(w, list->entries[i].sha256);
        }
}

/* What stands for everything that was not looked at, because there was too much of it. */
static void write_omitted(Writer *w, const ArtifactList *list)
{
    char reason[128];

    snprintf(reason, sizeof(reason), "too many files: %llu entries or more were left out",
             (unsigned long long)MAX(list->omitted, 1));
    write_text(w, "...");
    write_text(w, reason);
}

static void write_artifact_fields(Writer *w, const ArtifactList *list)
{
    size_t n = list ? list->n : 0, published = 0;
    bool omitted = list && (list->omitted > 0 || list->incomplete);

    for (size_t i = 0; i < n; i++)
        published += !list->entries[i].skipped;
    write_artifacts(w, list, published);
    write_key(w, "skipped");
    write_map(w, n - published + omitted);
    for (size_t i = 0; i < n; i++)
        if (list->entries[i].skipped) {
            write_name(w, list->entries[i].path);
            write_text(w, list->entries[i].skipped);
        }
    if (omitted)
        write_omitted(w, list);
}

#define RECORD_FIELDS 28

static void write_head(Writer *w, const RecordHead *head)
{
    write_map(w, RECORD_FIELDS);
    write_key(w, "run_id");
    write_text(w, head->run_id);
    write_key(w, "session");
    write_text(w, head->session);
    write_key(w, "engine");
    write_text(w, head->engine);
    write_key(w, "execution_count");
    write_uint(w, head->execution_count);
}

static void write_streams(Writer *w, const Executed *executed)
{
    write_key(w, "stdout");
    write_text_n(w, executed->out.data, executed->out.size);
    write_key(w, "stderr");
    write_text_n(w, executed->err.data, executed->err.size);
    write_key(w, "stdout_bytes");
    write_uint(w, executed->stdout_bytes);
    write_key(w, "stderr_bytes");
    write_uint(w, executed->stderr_bytes);
    write_key(w, "truncated");
    write_bool(w, executed->truncated);
    write_optional(w, "stdout_file", executed->stdout_file);
    write_optional(w, "stderr_file", executed->stderr_file);
}

static void write_values(Writer *w, const Executed *executed)
{
    write_optional(w, "result", executed->result);
    write_key(w, "displays");
    write_array(w, executed->displays->size);
    for (uint32_t i = 0; i < executed->displays->size; i++)
        write_object(w, &executed->displays->ptr[i]);
    write_number_or_nil(w, "signal", executed->signal);
    write_number_or_nil(w, "exit_code", executed->exit_code);
    write_key(w, "duration");
    write_double(w, executed->duration);
    write_key(w, "usage");
    write_map(w, 2);
    write_key(w, "cpu");
    write_double(w, executed->cpu);
    write_key(w, "peak_memory");
    write_uint(w, executed->peak_memory);
}

static void write_state(Writer *w, const RecordHead *head, const Executed *executed)
{
    write_key(w, "state");
    write_text_n(w, executed->state.data, executed->state.size);
    write_key(w, "rolled_back_to");
    if (executed->rolled_back_to)
        rolled_back_write(w, &executed->rolled_back);
    else
        write_nil(w);
    write_key(w, "not_restored");
    texts_write(w, executed->not_restored);
    write_key(w, "state_protection");
    state_protection_write(w, executed->state_protection ? &executed->protection : &protection_unknown);
    write_key(w, "changed");
    if (executed->changed)
        changed_write(w, &executed->changes);
    else
        write_nil(w);
    write_key(w, "epoch");
    write_uint(w, head->epoch);
}

static void write_out_of_memory(Writer *w, const Executed *executed)
{
    char variables[96] = "are lost", message[320];

    if (executed->rolled_back_to)
        snprintf(variables, sizeof(variables), "are as they were after call %" PRIu64,
                 executed->rolled_back.execution_count);
    else if (text_equal(executed->state, "kept"))
        snprintf(variables, sizeof(variables), "are kept");
    snprintf(message, sizeof(message),
             "the kernel killed the interpreter because the session was over its memory limit; its variables "
             "%s, files in /session are kept. Use less memory at once, or open the session with more",
             variables);
    write_error(w, "OutOfMemory", message);
}

static void write_cause(Writer *w, const Executed *executed, bool oom)
{
    if (oom) {
        write_out_of_memory(w, executed);
        return;
    }
    write_key(w, "error");
    if (executed->error)
        write_object(w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *executed->error});
    else
        write_nil(w);
}

int record_write(Buf *ret, const RecordHead *head, const Executed *executed, bool oom,
                 const ArtifactList *artifacts)
{
    Writer w;

    writer_init(&w, ret);
    write_head(&w, head);
    write_key(&w, "status");
    if (oom)
        write_text(&w, "oom");
    else
        write_text_n(&w, executed->status.data, executed->status.size);
    write_state(&w, head, executed);
    write_cause(&w, executed, oom);
    write_streams(&w, executed);
    write_values(&w, executed);
    write_artifact_fields(&w, artifacts);
    return writer_finish(&w);
}

int record_write_bare(Buf *ret, const RecordHead *head, const char *status, const char *state,
                      const char *name, const char *message)
{
    static const msgpack_object_array no_displays = {0};
    Executed nothing = {.out = {"", 0}, .err = {"", 0}, .displays = &no_displays};
    Writer w;

    nothing.state = (Text){state, strlen(state)};
    writer_init(&w, ret);
    write_head(&w, head);
    write_key(&w, "status");
    write_text(&w, status);
    write_state(&w, head, &nothing);
    write_error(&w, name, message);
    write_streams(&w, &nothing);
    write_values(&w, &nothing);
    write_artifact_fields(&w, NULL);
    return writer_finish(&w);
}
