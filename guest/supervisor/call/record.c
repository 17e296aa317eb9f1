/* The record of a call as the controller gets it. */
#include <string.h>

#include "guest/supervisor/call/cell.h"
#include "guest/supervisor/checkpoint/checkpoint.h"

/* The texts that the record points to and the cell does not have. */
typedef struct Texts {
    CheckpointId checkpoint;
    Buf streams[STREAMS];
    char files[STREAMS][LIMIT_PATH + 128];
} Texts;

static void texts_deinit(Texts *texts)
{
    for (unsigned i = 0; i < STREAMS; i++)
        buf_deinit(&texts->streams[i]);
}

static void set_call(MsgExecuted *record, const Cell *cell)
{
    record->run_id = text_of(cell->run_id);
    record->code_hash = cell->code_hash;
    record->branch = cell->branch_number;
    record->status = text_of(cell->outcome.status);
    record->execution_count = cell->execution_count;
    record->duration = cell->duration;
}

static void set_fate(MsgExecuted *record, const Fate *fate, Texts *texts)
{
    static const char *const states[] = {
        [STATE_KEPT] = "kept", [STATE_ROLLED_BACK] = "rolled_back", [STATE_LOST] = "lost"};

    record->state = text_of(states[fate->state]);
    record->has_rolled_back_to = fate->state == STATE_ROLLED_BACK;
    if (record->has_rolled_back_to)
        record->rolled_back_to =
            (MsgRolledBack){checkpoint_id(texts->checkpoint, fate->checkpoint), fate->execution_count};
    record->not_restored = notes_say(&fate->not_restored);
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

/* The text of a stream, and the path of all of it where it was cut. */
static int take_stream(Text *ret_text, Text *ret_file, Output *output, Texts *texts, unsigned i)
{
    Buf *text = &texts->streams[i];
    int r = output_text(output, text);

    *ret_text = text->size > 0 ? (Text){(const char *)buf_head(text), text->size} : (Text){"", 0};
    if (output->truncated && output_file(output, texts->files[i], sizeof(texts->files[i])))
        *ret_file = text_of(texts->files[i]);
    return r;
}

static int set_streams(MsgExecuted *record, Cell *cell, Texts *texts)
{
    int r = take_stream(&record->out, &record->stdout_file, &cell->output[0], texts, 0);

    if (r == 0)
        r = take_stream(&record->err, &record->stderr_file, &cell->output[1], texts, 1);
    record->stdout_bytes = cell->output[0].total;
    record->stderr_bytes = cell->output[1].total;
    record->truncated = cell->output[0].truncated || cell->output[1].truncated;
    return r;
}

static void set_outcome(MsgExecuted *record, const Outcome *outcome)
{
    record->result = outcome->result;
    record->has_changed = outcome->has_changed;
    record->changed = outcome->changed;
    record->has_error = outcome->error.name.data;
    record->error = outcome->error;
    record->signal = outcome->signal > 0 ? outcome->signal : NO_INT;
    record->exit_code = outcome->exit_code >= 0 ? outcome->exit_code : NO_INT;
    record->usage = (MsgUsage){.cpu = outcome->cpu, .peak_memory = outcome->peak_memory};
}

int cell_record(Cell *cell, const Fate *fate, uint64_t epoch, Buf *ret)
{
    Texts texts _cleanup_(texts_deinit) = {0};
    MsgExecuted record = {.epoch = epoch, .displays = displays_say(&cell->displays)};
    int r;

    set_call(&record, cell);
    set_fate(&record, fate, &texts);
    set_protection(&record, &cell->protection);
    set_outcome(&record, &cell->outcome);
    r = set_streams(&record, cell, &texts);
    return r < 0 ? r : message_encode(ret, MSG_EXECUTED, cell->id, MsgExecuted, &record);
}
