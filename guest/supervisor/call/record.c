/* The record of a call as the controller gets it. */
#include <string.h>

#include "guest/supervisor/call/cell.h"
#include "guest/supervisor/checkpoint/checkpoint.h"

static void set_call(MsgExecuted *record, const Cell *cell)
{
    record->run_id = text_of(cell->run_id);
    record->code_hash = cell->code_hash;
    record->branch = cell->branch_number;
    record->status = text_of(cell->outcome.status);
    record->execution_count = cell->execution_count;
    record->duration = cell->duration;
}

static void set_fate(MsgExecuted *record, const Fate *fate, CheckpointId id)
{
    static const char *const states[] = {
        [STATE_KEPT] = "kept", [STATE_ROLLED_BACK] = "rolled_back", [STATE_LOST] = "lost"};

    record->state = text_of(states[fate->state]);
    record->has_rolled_back_to = fate->state == STATE_ROLLED_BACK;
    if (record->has_rolled_back_to)
        record->rolled_back_to = (MsgRolledBack){checkpoint_id(id, fate->checkpoint), fate->execution_count};
    record->not_restored = notes_say(&fate->not_restored);
    record->memory = fate->memory;
}

static void set_protection(MsgExecuted *record, const Protection *protection)
{
    record->has_state_protection = true;
    record->state_protection = (MsgProtection){
        .level = text_of(protection->exists ? "checkpoint" : "none"),
        .execution_count = protection->exists ? protection->execution_count : NO_UINT,
        .reason = text_of(protection->exists ? NULL : protection->reason),
    };
}

/* `text` gets the words that the record points to. */
static int set_between(MsgExecuted *record, const Output between[STREAMS], Buf text[STREAMS])
{
    MsgBetween *said = &record->between;
    Text *words[STREAMS] = {&said->out, &said->err};

    said->dropped = 0;
    for (unsigned i = 0; i < STREAMS; i++) {
        const Buf *kept = &between[i].kept;
        int r = utf8_append_replaced(&text[i], buf_head(kept), kept->size);

        if (r < 0)
            return r;
        *words[i] = text[i].size > 0 ? (Text){(const char *)buf_head(&text[i]), text[i].size} : (Text){"", 0};
        said->dropped += between[i].total - kept->size;
        record->has_between |= between[i].total > 0;
    }
    return 0;
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

int cell_record(Cell *cell, const Fate *fate, uint64_t epoch, const EncodedNotes *restored, Buf *ret)
{
    OutputWords words _cleanup_(output_words_deinit) = {0}, between _cleanup_(output_words_deinit) = {0};
    CheckpointId id;
    MsgExecuted record = {.epoch = epoch, .displays = displays_say(&cell->displays)};
    int r;

    set_call(&record, cell);
    set_fate(&record, fate, id);
    set_protection(&record, &cell->protection);
    set_outcome(&record, &cell->outcome);
    if (restored)
        record.restored = notes_say(restored);
    r = outputs_say(&record, cell->output, &words);
    if (r == 0)
        r = set_between(&record, cell->between, between.text);
    return r < 0 ? r : message_encode(ret, MSG_EXECUTED, cell->id, MsgExecuted, &record);
}
