#include "guest/supervisor/call/result.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "guest/channel.h"

static void outcome_begin(Outcome *outcome, const char *status)
{
    *outcome = (Outcome){.status = status, .exit_code = -1};
}

/* Sets an error that Python did not report. The message is what was written to outcome->message. */
static void set_error(Outcome *outcome, const char *name)
{
    words_make_text(outcome->message);
    outcome->error = (MsgPythonError){text_of(name), text_of(outcome->message), text_of("")};
}

void outcome_finished(Outcome *ret, const MsgCellExecuted *executed, InterruptionCause cause, double timeout)
{
    bool raised = executed->error.name.data;

    outcome_begin(ret, cause == INTERRUPTION_CAUSE_DEADLINE    ? "timeout"
                       : cause == INTERRUPTION_CAUSE_INTERRUPT ? "interrupted"
                       : raised                                ? "error"
                                                               : "ok");
    ret->result = executed->result;
    ret->error = executed->error;
    ret->has_changed = executed->has_changed;
    ret->changed = executed->changed;
    ret->memory = executed->memory;
    ret->cpu = executed->cpu;
    ret->peak_memory = executed->peak_memory;
    if (raised || cause == INTERRUPTION_CAUSE_NONE)
        return;
    ret->speaks_of_state = true;
    if (cause == INTERRUPTION_CAUSE_DEADLINE) {
        snprintf(ret->message, sizeof(ret->message),
                 "the call was interrupted after %g s, caught that, and ended by itself", timeout);
        set_error(ret, "Timeout");
    } else {
        snprintf(ret->message, sizeof(ret->message),
                 "the call was interrupted, caught that, and ended by itself");
        set_error(ret, "Interrupted");
    }
}

static void move_text(Text *text, const Outcome *outcome, Buf *into)
{
    const char *at = (const char *)buf_head(into) + into->size;

    if (!text->data || text->data == outcome->message)
        return;
    buf_append(into, text->data, text->size); /* there is room, so `into` does not move */
    text->data = at;
}

int outcome_own(Outcome *outcome, Buf *into)
{
    Text *texts[] = {&outcome->result, &outcome->error.name, &outcome->error.message,
                     &outcome->error.traceback};
    size_t size = 1;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        size += texts[i]->size;
    if (!buf_reserve(into, size))
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        move_text(texts[i], outcome, into);
    outcome->has_changed = false;
    outcome->memory = (Value){0};
    return 0;
}

static const char *describe_kill(Outcome *outcome, const Loss *loss)
{
    if (loss->killed == INTERRUPTION_CAUSE_DEADLINE) {
        outcome->status = "timeout";
        snprintf(outcome->message, sizeof(outcome->message),
                 loss->waited ? "the call could not begin within %g s, as its interpreter did not make a "
                                "checkpoint (a thread of the code may keep it busy), so it was killed"
                              : "the call did not end within %g s or when it was interrupted, so its "
                                "interpreter was killed",
                 loss->timeout);
        return "TimeoutKilled";
    }
    outcome->status = "interrupted";
    snprintf(outcome->message, sizeof(outcome->message), "%s",
             loss->reset ? "the session was reset during the call, so its interpreter was killed"
                         : "the call did not end when it was interrupted, so its interpreter was killed");
    return "InterruptKilled";
}

static const char *describe_signal(Outcome *outcome, int number)
{
    const char *name = sigabbrev_np(number);

    outcome->status = "crashed";
    outcome->signal = number;
    snprintf(outcome->message, sizeof(outcome->message), "the interpreter was ended by signal %d (SIG%s)%s",
             number, name ? name : "?", number == SIGKILL ? ", as the kernel does when memory runs out" : "");
    return "Crashed";
}

static const char *describe_death(Outcome *outcome, const Loss *loss)
{
    if (loss->fault) {
        outcome->status = "crashed";
        snprintf(outcome->message, sizeof(outcome->message),
                 "the interpreter broke the protocol and was killed: %.512s", loss->fault);
        return "Crashed";
    }
    if (WIFSIGNALED(loss->status))
        return describe_signal(outcome, WTERMSIG(loss->status));
    outcome->status = "exited";
    outcome->exit_code = WEXITSTATUS(loss->status);
    snprintf(outcome->message, sizeof(outcome->message), "the code ended its interpreter with exit code %d",
             outcome->exit_code);
    return "Exited";
}

void outcome_lost(Outcome *ret, const Loss *loss)
{
    outcome_begin(ret, NULL);

    const char *name =
        loss->killed != INTERRUPTION_CAUSE_NONE ? describe_kill(ret, loss) : describe_death(ret, loss);

    ret->speaks_of_state = true;
    set_error(ret, name);
}

void outcome_failed(Outcome *ret, const char *name, const char *what, const char *why)
{
    outcome_begin(ret, "failed");
    snprintf(ret->message, sizeof(ret->message), "%s: %.512s", what, why);
    set_error(ret, name);
}

void outcome_never_begun(Outcome *ret)
{
    outcome_begin(ret, "interrupted");
    snprintf(ret->message, sizeof(ret->message), "the call was interrupted before it started");
    set_error(ret, "Interrupted");
}

void outcome_too_late(Outcome *ret, double timeout)
{
    outcome_begin(ret, "timeout");
    snprintf(ret->message, sizeof(ret->message),
             "the call was not run: making the checkpoint to roll back to took longer than its %g s",
             timeout);
    set_error(ret, "Timeout");
}

void outcome_settle(Outcome *outcome, const StateChange *change)
{
    if (change->state != STATE_KEPT)
        outcome->has_changed = false;
    if (!outcome->speaks_of_state)
        return;
    state_change_describe(change, outcome->message, sizeof(outcome->message));
    outcome->error.message = text_of(outcome->message);
}

/* ---- displays ---- */

/* The limits of all displays of a call together. They travel in one message, which must pass wire_check at
 * its receiver and at the client: there is room left for the other fields and for the maps around an entry.
 */
#define NODES_MAXIMUM (LIMIT_NODES / 2)
#define DEPTH_MAXIMUM (LIMIT_DEPTH / 2)
#define KEYS_MAXIMUM  (LIMIT_KEYS / 2)
#define COUNT_MAXIMUM (LIMIT_DISPLAYS - 1)
#define BYTES_MAXIMUM (LIMIT_DISPLAY_BYTES - 1024u)

typedef struct DisplayEntry {
    List link;
    char *display_id; /* NULL: none */
    Buf encoded;      /* its map in the record */
    size_t nodes;
} DisplayEntry;

static DisplayEntry *entry_free(DisplayEntry *entry)
{
    if (!entry)
        return NULL;
    free(entry->display_id);
    buf_deinit(&entry->encoded);
    free(entry);
    return NULL;
}
DEFINE_CLEANUP(DisplayEntry *, entry_free);

void displays_init(Displays *displays)
{
    *displays = (Displays){0};
    list_init(&displays->entries);
}

/* The count of dropped displays stays: they cannot be taken back. */
static void displays_clear(Displays *displays)
{
    size_t dropped = displays->dropped;
    DisplayEntry *entry;

    list_foreach (entry, &displays->entries, DisplayEntry, link)
        entry_free(entry);
    displays_init(displays);
    displays->dropped = dropped;
}

void displays_deinit(Displays *displays)
{
    displays_clear(displays);
    displays->dropped = 0;
}

static bool is_clearing(const MsgDisplay *display)
{
    return display->update && !display->display_id.data;
}

/* Returns whether the clearing waits for something new to be shown. */
static bool waits(const MsgDisplay *display)
{
    const msgpack_object_map *metadata = display->metadata.map;

    return metadata && metadata->size > 0 && metadata->ptr[0].val.via.boolean;
}

/* A plain clearing is sent on as it is, whatever the limits. */
static bool is_plain_clearing(const MsgDisplay *display)
{
    const msgpack_object_map *metadata = display->metadata.map;

    return display->data.map->size == 0 && (!metadata || metadata->size == 0 ||
                                            (metadata->size == 1 && map_find(metadata, "wait") &&
                                             metadata->ptr[0].val.type == MSGPACK_OBJECT_BOOLEAN));
}

static int display_check(const MsgDisplay *display, Problem *problem)
{
    if (is_clearing(display) && !is_plain_clearing(display))
        return problem_set(problem, ERR_BAD_REQUEST, "an update of no display in particular shows something");
    return 0;
}

int display_decode(MsgDisplay *ret, const msgpack_object_map *body, Problem *problem)
{
    int r = body_decode(ret, MsgDisplay, body, problem);

    return r < 0 ? r : display_check(ret, problem);
}

/* Counts the values of a tree into *nodes. false when it is deeper or a chain of maps has more keys than
 * may be sent on. The tree has passed wire_check, so that its depth bounds the recursion. */
static bool measure(const msgpack_object *object, unsigned depth, size_t keys, size_t *nodes)
{
    *nodes += 1;
    if (depth > DEPTH_MAXIMUM)
        return false;
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < object->via.array.size; i++)
            if (!measure(&object->via.array.ptr[i], depth + 1, keys, nodes))
                return false;
    } else if (object->type == MSGPACK_OBJECT_MAP) {
        keys += object->via.map.size;
        if (keys > KEYS_MAXIMUM)
            return false;
        for (uint32_t i = 0; i < object->via.map.size; i++)
            if (!measure(&object->via.map.ptr[i].key, depth + 1, keys, nodes) ||
                !measure(&object->via.map.ptr[i].val, depth + 1, keys, nodes))
                return false;
    }
    return true;
}

static bool measure_map(const msgpack_object_map *map, size_t *nodes)
{
    if (!map)
        return true;
    return measure(&(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *map}, 1, 0, nodes);
}

static void write_empty_map(Writer *w, const void *source)
{
    write_map(w, 0);
}

Value display_metadata(const MsgDisplay *display)
{
    return display->metadata.map ? display->metadata : (Value){.write = write_empty_map};
}

static int encode(Buf *ret, const MsgDisplay *display)
{
    const MsgShown shown = {
        .data = display->data,
        .metadata = display_metadata(display),
        .display_id = display->display_id,
        .is_result = display->is_result,
    };

    return body_encode(ret, MsgShown, &shown);
}

static DisplayEntry *entry_new(const MsgDisplay *display)
{
    _cleanup_(entry_freep) DisplayEntry *entry = calloc(1, sizeof(*entry));

    if (!entry)
        return NULL;
    list_init(&entry->link);
    if (!measure_map(display->data.map, &entry->nodes) || !measure_map(display->metadata.map, &entry->nodes))
        return NULL;
    if (display->display_id.data) {
        entry->display_id = text_dup(display->display_id);
        if (!entry->display_id)
            return NULL;
    }
    entry->encoded.limit = BYTES_MAXIMUM;
    return encode(&entry->encoded, display) < 0 ? NULL : take(entry);
}

static DisplayEntry *find(const Displays *displays, Text display_id)
{
    DisplayEntry *entry;

    list_foreach (entry, (List *)&displays->entries, DisplayEntry, link)
        if (entry->display_id && text_equal(display_id, entry->display_id))
            return entry;
    return NULL;
}

static bool keep(Displays *displays, const MsgDisplay *display)
{
    _cleanup_(entry_freep) DisplayEntry *entry = entry_new(display);
    DisplayEntry *old =
        display->update && display->display_id.data ? find(displays, display->display_id) : NULL;
    size_t count = displays->count - (old ? 1 : 0);
    size_t bytes = displays->bytes - (old ? old->encoded.size : 0);
    size_t nodes = displays->nodes - (old ? old->nodes : 0);

    if (!entry || count >= COUNT_MAXIMUM || entry->encoded.size > BYTES_MAXIMUM - bytes ||
        entry->nodes > NODES_MAXIMUM - nodes) {
        displays->dropped++;
        return false;
    }
    displays->count = count + 1;
    displays->bytes = bytes + entry->encoded.size;
    displays->nodes = nodes + entry->nodes;
    list_append(old ? &old->link : &displays->entries, &entry->link);
    if (old) {
        list_remove(&old->link);
        entry_free(old);
    }
    entry = NULL;
    return true;
}

bool displays_add(Displays *displays, const MsgDisplay *display)
{
    if (is_clearing(display) && waits(display)) {
        displays->clearing = true;
        return true;
    }
    if (is_clearing(display) || displays->clearing)
        displays_clear(displays);
    return is_clearing(display) || keep(displays, display);
}

static void write_notice_data(Writer *w, const void *source)
{
    char text[160];

    snprintf(text, sizeof(text), "%zu more displays were dropped: a call may have %u, of %u MiB together",
             *(const size_t *)source, COUNT_MAXIMUM, LIMIT_DISPLAY_BYTES >> 20);
    write_map(w, 1);
    write_key(w, "text/plain");
    write_text(w, text);
}

static void write_notice(Writer *w, size_t dropped)
{
    const MsgShown notice = {
        .data = {.write = write_notice_data, .source = &dropped},
        .metadata = {.write = write_empty_map},
    };

    body_write(w, MsgShown, &notice);
}

static void write_displays(Writer *w, const void *source)
{
    const Displays *displays = source;
    DisplayEntry *entry;

    write_array(w, displays->count + (displays->dropped > 0));
    list_foreach (entry, (List *)&displays->entries, DisplayEntry, link)
        write_encoded(w, &entry->encoded);
    if (displays->dropped > 0)
        write_notice(w, displays->dropped);
}

Value displays_say(const Displays *displays)
{
    return (Value){.write = write_displays, .source = displays};
}

/* ---- `executed` of the interpreter ---- */

static int take_displays(Displays *displays, const Value *rows, Problem *problem)
{
    for (uint32_t i = 0; i < value_count(rows); i++) {
        MsgDisplay display;
        int r;

        value_row(&display, MsgDisplay, rows, i);
        r = display_check(&display, problem);
        if (r < 0)
            return r;
        displays_add(displays, &display);
    }
    return 0;
}

int executed_decode(MsgCellExecuted *ret, Displays *displays, const msgpack_object_map *body,
                    Problem *problem)
{
    MsgCellExecuted said;
    int r = body_decode(&said, MsgCellExecuted, body, problem);

    if (r == 0)
        r = take_displays(displays, &said.displays, problem);
    if (r < 0)
        return r;
    said.cpu = isnan(said.cpu) ? 0 : MAX(said.cpu, 0.0);
    said.peak_memory = uint_or(said.peak_memory, 0);
    *ret = said;
    return 0;
}

/* ---- the record ---- */

static void set_state(MsgExecuted *record, const StateChange *change, CheckpointId id)
{
    static const char *const states[] = {
        [STATE_KEPT] = "kept", [STATE_ROLLED_BACK] = "rolled_back", [STATE_LOST] = "lost"};

    record->state = text_of(states[change->state]);
    record->has_rolled_back_to = change->state == STATE_ROLLED_BACK;
    if (record->has_rolled_back_to)
        record->rolled_back_to =
            (MsgRolledBack){checkpoint_id(id, change->checkpoint), change->execution_count};
    record->not_restored = notes_say(&change->not_restored);
    record->memory = change->memory;
}

static void set_protection(MsgExecuted *record, const Protection *protection)
{
    record->has_state_protection = true;
    record->state_protection = (MsgProtection){
        .level = text_of(protection->exists ? "checkpoint" : "none"),
        .execution_count = protection->exists ? protection->execution_count : NO_UINT,
        .reason = text_of(protection->reason[0] ? protection->reason : NULL),
    };
}

static void set_outcome(MsgExecuted *record, const Outcome *outcome)
{
    record->result = outcome->result;
    record->has_changed = outcome->has_changed;
    record->changed = outcome->changed;
    if (value_count(&outcome->memory) > 0)
        record->memory = outcome->memory;
    record->has_error = outcome->error.name.data;
    record->error = outcome->error;
    record->signal = outcome->signal > 0 ? outcome->signal : NO_INT;
    record->exit_code = outcome->exit_code >= 0 ? outcome->exit_code : NO_INT;
    record->usage = (MsgUsage){.cpu = outcome->cpu, .peak_memory = outcome->peak_memory};
}

void result_say(MsgExecuted *record, const Outcome *outcome, const StateChange *change,
                const Protection *protection, CheckpointId id)
{
    record->status = text_of(outcome->status);
    set_state(record, change, id);
    set_protection(record, protection);
    set_outcome(record, outcome);
}

/* ---- questions ---- */

typedef struct Ask {
    List link;
    uint64_t number;
    bool sent;
    Buf envelope; /* the encoded message to the controller */
} Ask;

static Ask *ask_free(Ask *ask)
{
    if (!ask)
        return NULL;
    buf_deinit(&ask->envelope);
    free(ask);
    return NULL;
}
DEFINE_CLEANUP(Ask *, ask_free);

void questions_init(Questions *questions, AskMode mode)
{
    *questions = (Questions){.mode = mode};
    list_init(&questions->waiting);
}

static void drop_ask(Questions *questions, Ask *ask)
{
    list_remove(&ask->link);
    questions->count--;
    ask_free(ask);
}

void questions_deinit(Questions *questions)
{
    Ask *ask;

    list_foreach (ask, &questions->waiting, Ask, link)
        drop_ask(questions, ask);
    questions->mode = ASK_NOBODY;
}

/* The kinds of questions. `tool` alone has a payload. */
static const struct {
    const char *kind;
    bool payload;
    const char *refusal; /* the exception that says so where nobody is asked */
} kinds[] = {
    {"input", false, "EOFError"},
    {"secret", false, "EOFError"},
    {"tools", false, "RuntimeError"},
    {"tool", true, "RuntimeError"},
};

/* SIZE_MAX: no such kind. */
static size_t kind_find(Text kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (text_equal(kind, kinds[i].kind))
            return i;
    return SIZE_MAX;
}

int question_decode(MsgAsk *ret, const msgpack_object_map *body, Problem *problem)
{
    MsgAsk question;
    int r = body_decode(&question, MsgAsk, body, problem);

    if (r < 0)
        return r;
    size_t kind = kind_find(question.kind);
    if (kind == SIZE_MAX)
        return problem_set(problem, ERR_BAD_REQUEST, "an `ask` of an unknown kind");
    if (kinds[kind].payload != !!question.payload.data)
        return problem_set(problem, ERR_BAD_REQUEST, "an `ask` of kind %s %s a payload", kinds[kind].kind,
                           kinds[kind].payload ? "without" : "with");
    if (!question.name.data)
        question.name = (Text){"", 0};
    *ret = question;
    return 0;
}

int answer_decode(MsgAnswer *ret, const msgpack_object_map *body, Problem *problem)
{
    MsgAnswer said;
    int r = body_decode(&said, MsgAnswer, body, problem);

    if (r == 0 && !said.payload.data == !said.has_error)
        r = problem_set(problem, ERR_BAD_REQUEST, "an `answer` has either `payload` or `error`");
    if (r == 0)
        *ret = said;
    return r;
}

MsgAnswer question_refusal(const MsgAsk *question, const char *why)
{
    size_t kind = kind_find(question->kind);
    const char *name = kind < ARRAY_SIZE(kinds) ? kinds[kind].refusal : "RuntimeError";

    return (MsgAnswer){
        .ask = question->ask, .has_error = true, .error = {.name = text_of(name), .message = text_of(why)}};
}

static Ask *find_ask(const Questions *questions, uint64_t number)
{
    Ask *ask;

    list_foreach (ask, (List *)&questions->waiting, Ask, link)
        if (ask->number == number)
            return ask;
    return NULL;
}

const char *questions_add(Questions *questions, uint64_t id, const MsgAsk *question)
{
    if (questions->mode == ASK_NOBODY)
        return "there is no client to ask";
    if (question->name.size > LIMIT_ASK || question->payload.size > LIMIT_ASK)
        return "a question exceeds its limit of 1 MiB";
    if (questions->count >= LIMIT_ASKS)
        return "too many questions wait for an answer";
    if (questions->asked >= LIMIT_ASKED)
        return "this call has asked too many questions";
    if (find_ask(questions, question->ask))
        return "a question with this number is already waiting";

    _cleanup_(ask_freep) Ask *ask = calloc(1, sizeof(*ask));
    if (!ask || message_encode(&ask->envelope, MSG_ASK, id, MsgAsk, question) < 0)
        return "there is no memory for a question";
    ask->number = question->ask;
    list_append(&questions->waiting, &ask->link);
    take(ask);
    questions->count++;
    questions->asked++;
    return NULL;
}

bool questions_take(Questions *questions, uint64_t number)
{
    Ask *ask = find_ask(questions, number);

    if (ask)
        drop_ask(questions, ask);
    return ask;
}

bool questions_unsent(const Questions *questions)
{
    /* Questions are sent in order: the last one tells. */
    return questions->count > 0 && !list_entry(questions->waiting.prev, Ask, link)->sent;
}

void questions_send(Questions *questions, Link *link)
{
    Ask *ask;

    list_foreach (ask, &questions->waiting, Ask, link)
        if (!ask->sent && link_send(link, &ask->envelope) == 0)
            ask->sent = true;
}

void questions_send_again(Questions *questions)
{
    Ask *ask;

    list_foreach (ask, &questions->waiting, Ask, link)
        ask->sent = false;
}

int answer_encode(Buf *frame, uint64_t id, const MsgAnswer *answer)
{
    return channel_say(frame, MSG_ANSWER, id, MsgAnswer, answer);
}
