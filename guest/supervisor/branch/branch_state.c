/* The states of a branch, by the table in branch_states.def; and what its variables are, once live state has
 * ended. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/branch/branch.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static const struct {
    const char *name;
    uint64_t seconds;
    const char *late;
} states[] = {
#define BRANCH_STATE(state, seconds, late, awaits) {#state, seconds, late},
#include "guest/supervisor/branch/branch_states.def"
};

/* The state after an event, and 1; 0: none. */
static const uint8_t moves[ARRAY_SIZE(states)][BRANCH_ON_CLOSED + 1] = {
#define BRANCH_MOVE(from, event, to) [BRANCH_##from][BRANCH_ON_##event] = BRANCH_##to + 1,
#include "guest/supervisor/branch/branch_states.def"
};

static void on_limit_due(LoopTimer *timer)
{
    Branch *branch = container_of(timer, Branch, limit);

    branch_lose(branch, states[branch->state].late);
}

/* Begins the limit of its state. All copies that a recovery tries have one limit together. */
static int limit_state(Branch *branch)
{
    uint64_t end = clock_now() + states[branch->state].seconds * NSEC_PER_SEC;

    if (branch->state == BRANCH_COPYING)
        end = MIN(end, branch->recovery.end);
    return loop_timer_set(branch->set->loop, &branch->limit, end, on_limit_due);
}

static BranchState state_after(Branch *branch, BranchEvent event)
{
    unsigned next = moves[branch->state][event];

    if (next > 0)
        return (BranchState)(next - 1);
    log_error("a branch has made a move that there is not", "branch=%" PRIu64 " state=%s event=%d",
              branch->number, states[branch->state].name, (int)event);
    assert(!"a move that there is not");
    reason_set(branch->why, "the supervisor made a mistake");
    branches_changed(branch->set);
    return BRANCH_KILLING;
}

int branch_move(Branch *branch, BranchEvent event)
{
    branch->state = state_after(branch, event);
    loop_timer_cancel(&branch->limit);
    return states[branch->state].seconds > 0 ? limit_state(branch) : 0;
}

/* ---- the end of live state ---- */

const char state_change_no_checkpoint[] = "no checkpoint had been taken yet";

void state_change_deinit(StateChange *change)
{
    notes_deinit(&change->not_restored);
    *change = STATE_UNCHANGED;
}

void state_change_move(StateChange *to, StateChange *from)
{
    notes_deinit(&to->not_restored);
    *to = *from;
    *from = STATE_UNCHANGED;
}

void words_make_text(char *words)
{
    if (utf8_valid(words, strlen(words)))
        return;
    for (; *words; words++)
        if (*words & 0x80)
            *words = '?';
}

void reason_set(Reason reason, const char *format, ...)
{
    va_list arguments;
    size_t size;

    va_start(arguments, format);
    vsnprintf(reason, sizeof(Reason), format, arguments);
    va_end(arguments);
    for (size = strlen(reason); size > 0 && !utf8_valid(reason, size); size--)
        ;
    reason[size] = '\0';
}

typedef struct Sentence {
    char *text;
    size_t size, used;
} Sentence;

static void append(Sentence *sentence, const char *format, ...) _printf_(2, 3);

static void append(Sentence *sentence, const char *format, ...)
{
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(sentence->text + sentence->used, sentence->size - sentence->used, format, arguments);
    va_end(arguments);
    sentence->used = MIN(sentence->used + (size_t)MAX(n, 0), sentence->size - 1);
}

static void append_rolled_back(Sentence *sentence, const StateChange *change)
{
    if (change->execution_count > 0)
        append(sentence, "; its variables are as they were after call %" PRIu64, change->execution_count);
    else
        append(sentence, "; its variables are as they were before the first call");
    if (change->calls == 0) {
        if (change->execution_count > 0)
            append(sentence, " (the call before this one)");
        return;
    }
    if (change->reason[0])
        append(sentence, ": later changes are lost, because %s", change->reason);
    else if (change->calls == 1)
        append(sentence, ": the next call followed too soon for a checkpoint");
    else
        append(sentence, ": the %" PRIu64 " calls after it followed each other too closely for a checkpoint",
               change->calls);
}

void state_change_describe(const StateChange *change, char *sentence_text, size_t size)
{
    Sentence sentence = {sentence_text, size, strlen(sentence_text)};

    switch (change->state) {
    case STATE_KEPT:
        append(&sentence, "; its variables are kept");
        return;
    case STATE_ROLLED_BACK:
        append_rolled_back(&sentence, change);
        return;
    case STATE_LOST:
        append(&sentence, "; its variables are lost, files in " SESSION_PATH " are kept (%s)",
               change->reason[0] ? change->reason : state_change_no_checkpoint);
        return;
    }
}

/* ---- notes ---- */

void notes_deinit(EncodedNotes *notes)
{
    buf_deinit(&notes->encoded);
    *notes = NOTES_NULL;
}

static void encode_note(EncodedNotes *notes, Text text)
{
    Writer w;

    writer_init(&w, &notes->encoded);
    write_text_n(&w, text.data, text.size);
    if (writer_finish(&w) == 0)
        notes->n++;
}

void notes_add(EncodedNotes *notes, Text text)
{
    if (notes->n < LIMIT_NOT_RESTORED)
        encode_note(notes, text);
}

void notes_take(EncodedNotes *notes, const Value *texts)
{
    notes_deinit(notes);
    for (uint32_t i = 0; i < value_count(texts); i++)
        encode_note(notes, value_text(texts, i));
}

void notes_add_all(EncodedNotes *notes, const Value *texts)
{
    for (uint32_t i = 0; i < value_count(texts); i++)
        notes_add(notes, value_text(texts, i));
}

static void write_notes(Writer *w, const void *source)
{
    const EncodedNotes *notes = source;

    write_array(w, notes->n);
    if (notes->n > 0)
        write_encoded(w, &notes->encoded);
}

Value notes_say(const EncodedNotes *notes)
{
    return (Value){.write = write_notes, .source = notes};
}
