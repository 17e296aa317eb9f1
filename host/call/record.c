#include "host/call/record.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

/* Exit status of a shell whose command was killed. */
#define EXIT_OF_KILLED (128 + SIGKILL)

/* Protection of the state of a call of which nobody has told. */
static const MsgProtection unknown_protection = {
    .level = {"none", 4},
    .execution_count = NO_UINT,
    .reason = {"the sandbox did not say", 23},
};

static const MsgProtection command_protection = {
    .level = {"none", 4},
    .execution_count = NO_UINT,
    .reason = {"a command leaves the variables alone", 36},
};

int record_decode(MsgExecuted *ret, const msgpack_object_map *body, Problem *problem)
{
    MsgExecuted executed;
    int r = body_decode(&executed, MsgExecuted, body, problem);

    if (r < 0)
        return r;
    if (executed.has_rolled_back_to != text_equal(executed.state, "rolled_back"))
        return problem_set(problem, ERR_BAD_REQUEST, "executed: rolled_back_to does not go with state");
    if (executed.has_error == text_equal(executed.status, "ok"))
        return problem_set(problem, ERR_BAD_REQUEST, "executed: error does not go with status");
    *ret = executed;
    return 0;
}

bool record_was_killed(const MsgExecuted *executed)
{
    if (text_equal(executed->status, "error"))
        return executed->exit_code == EXIT_OF_KILLED;
    return text_equal(executed->status, "crashed") &&
           (executed->signal == NO_INT || executed->signal == SIGKILL);
}

/* ---- artifacts ---- */

static void write_paths(Writer *w, const void *source)
{
    const ArtifactList *list = source;

    write_map(w, artifact_list_published(list));
    for (size_t i = 0; i < list->n; i++)
        if (!list->entries[i].skipped) {
            write_name(w, list->entries[i].path);
            write_text(w, list->entries[i].host_path);
        }
}

static void write_infos(Writer *w, const void *source)
{
    const ArtifactList *list = source;

    write_map(w, artifact_list_published(list));
    for (size_t i = 0; i < list->n; i++) {
        const Artifact *artifact = &list->entries[i];
        const MsgArtifact info = {.size = artifact->size,
                                  .mime_type = text_of(artifact->mime_type),
                                  .sha256 = text_of(artifact->sha256)};

        if (artifact->skipped)
            continue;
        write_name(w, artifact->path);
        body_write(w, MsgArtifact, &info);
    }
}

/* Writes the entry that stands for all files that were not looked at because there were too many. */
static void write_omitted(Writer *w, const ArtifactList *list)
{
    char reason[128];

    snprintf(reason, sizeof(reason), "too many files: at least %llu entries were left out",
             (unsigned long long)MAX(list->omitted, 1));
    write_text(w, "...");
    write_text(w, reason);
}

static void write_skipped(Writer *w, const void *source)
{
    const ArtifactList *list = source;
    bool omitted = list->omitted > 0 || list->incomplete;

    write_map(w, list->n - artifact_list_published(list) + omitted);
    for (size_t i = 0; i < list->n; i++)
        if (list->entries[i].skipped) {
            write_name(w, list->entries[i].path);
            write_text(w, list->entries[i].skipped);
        }
    if (omitted)
        write_omitted(w, list);
}

static void set_artifacts(MsgRecord *record, const ArtifactList *list)
{
    if (!list)
        return;
    record->artifacts = (Value){.write = write_paths, .source = list};
    record->artifact_info = (Value){.write = write_infos, .source = list};
    record->skipped = (Value){.write = write_skipped, .source = list};
}

/* ---- the record ---- */

static void set_head(MsgRecord *record, const RecordHead *head)
{
    record->run_id = text_of(head->run_id);
    record->session = text_of(head->session);
    record->engine = text_of(head->engine);
    record->execution_count = head->execution_count;
    record->epoch = head->epoch;
    record->kind = text_of(head->kind);
    if (head->execution_count == NO_UINT)
        record->state_protection = command_protection;
}

/* Copies what the supervisor tells of the call, as it tells it. */
static MsgRecord record_of(const MsgExecuted *executed)
{
    return (MsgRecord){
        .status = executed->status,
        .state = executed->state,
        .has_rolled_back_to = executed->has_rolled_back_to,
        .rolled_back_to = executed->rolled_back_to,
        .not_restored = executed->not_restored,
        .restored = executed->restored,
        .state_protection = executed->has_state_protection ? executed->state_protection : unknown_protection,
        .has_changed = executed->has_changed,
        .changed = executed->changed,
        .out = executed->out,
        .err = executed->err,
        .stdout_bytes = executed->stdout_bytes,
        .stderr_bytes = executed->stderr_bytes,
        .truncated = executed->truncated,
        .stdout_file = executed->stdout_file,
        .stderr_file = executed->stderr_file,
        .result = executed->result,
        .displays = executed->displays,
        .has_error = executed->has_error,
        .error = executed->error,
        .signal = executed->signal,
        .exit_code = executed->exit_code,
        .duration = executed->duration,
        .usage = executed->usage,
        .has_between = executed->has_between,
        .between = executed->between,
        .memory = executed->memory,
    };
}

static void set_error(MsgRecord *record, const char *name, const char *message)
{
    record->has_error = true;
    record->error = (MsgPythonError){text_of(name), text_of(message), {"", 0}};
}

static void blame_of_command(char *message, size_t size)
{
    snprintf(message, size,
             "the kernel killed the command, or what it ran, because the session was over its memory limit. "
             "Use less memory at once, or open the session with more");
}

static void blame_of_cell(const MsgRecord *record, char *message, size_t size)
{
    char variables[96] = "are lost";

    if (record->has_rolled_back_to)
        snprintf(variables, sizeof(variables), "are as they were after call %" PRIu64,
                 record->rolled_back_to.execution_count);
    else if (text_equal(record->state, "kept"))
        snprintf(variables, sizeof(variables), "are kept");
    snprintf(message, size,
             "the kernel killed the interpreter because the session exceeded its memory limit; its variables "
             "%s, files in /session are kept. Use less memory at once, or open the session with more",
             variables);
}

/* `message` is what the record points to. */
static void blame_memory(MsgRecord *record, char *message, size_t size)
{
    if (record->execution_count == NO_UINT)
        blame_of_command(message, size);
    else
        blame_of_cell(record, message, size);
    record->status = text_of("oom");
    set_error(record, "OutOfMemory", message);
}

int record_write(Buf *ret, const RecordHead *head, const MsgExecuted *executed, bool oom,
                 const ArtifactList *artifacts)
{
    MsgRecord record = record_of(executed);
    char message[320];

    set_head(&record, head);
    set_artifacts(&record, artifacts);
    if (oom)
        blame_memory(&record, message, sizeof(message));
    else if (!text_equal(executed->state, "kept") && !text_equal(executed->status, "error"))
        record.memory = (Value){0}; /* it was not for its memory that it was killed */
    return body_encode(ret, MsgRecord, &record);
}

int record_write_bare(Buf *ret, const RecordHead *head, const char *status, const char *state,
                      const char *name, const char *message)
{
    MsgRecord record;

    body_clear(&record, MsgRecord);
    record.usage = (MsgUsage){0};
    record.duration = 0;
    record.stdout_bytes = record.stderr_bytes = 0;
    record.state_protection = unknown_protection;
    record.status = text_of(status);
    record.state = text_of(state);
    record.out = record.err = (Text){"", 0};
    set_head(&record, head);
    set_error(&record, name, message);
    return body_encode(ret, MsgRecord, &record);
}
