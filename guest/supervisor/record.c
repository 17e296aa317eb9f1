#include "guest/supervisor/record.h"

#include <string.h>

#include "guest/supervisor/checkpoint.h"

static void write_optional_text(Writer *w, Text text)
{
    if (text.data)
        write_text_n(w, text.data, text.size);
    else
        write_nil(w);
}

static void write_call(Writer *w, const Cell *cell)
{
    write_key(w, "run_id");
    write_text(w, cell->run_id);
    write_key(w, "code_hash");
    write_uint(w, cell->code_hash);
    write_key(w, "branch");
    write_uint(w, cell->branch_number);
    write_key(w, "status");
    write_text(w, cell->outcome.status);
}

static void write_fate(Writer *w, const Fate *fate)
{
    static const char *const states[] = {
        [STATE_KEPT] = "kept", [STATE_ROLLED_BACK] = "rolled_back", [STATE_LOST] = "lost"};

    write_key(w, "state");
    write_text(w, states[fate->state]);
    write_key(w, "rolled_back_to");
    if (fate->state == STATE_ROLLED_BACK) {
        write_map(w, 2);
        write_key(w, "checkpoint");
        checkpoint_write_number(w, fate->checkpoint);
        write_key(w, "execution_count");
        write_uint(w, fate->execution_count);
    } else {
        write_nil(w);
    }
    write_key(w, "not_restored");
    notes_write(&fate->not_restored, w);
}

static void write_protection(Writer *w, const Protection *protection)
{
    write_key(w, "state_protection");
    write_map(w, 3);
    write_key(w, "level");
    write_text(w, protection->exists ? "checkpoint" : "none");
    write_key(w, "execution_count");
    if (protection->exists)
        write_uint(w, protection->execution_count);
    else
        write_nil(w);
    write_key(w, "reason");
    write_text(w, protection->exists ? NULL : protection->reason);
}

typedef struct StreamKeys {
    const char *text, *bytes, *file;
} StreamKeys;

/* `text` has room for the text of a stream and is empty before and after. */
static void write_stream(Writer *w, Output *output, const StreamKeys *keys, Buf *text)
{
    char file[LIMIT_PATH + 128];
    int r = output_text(output, text);

    if (r < 0 && w->error == 0)
        w->error = r;
    write_key(w, keys->text);
    write_text_n(w, text->size ? (const char *)buf_head(text) : "", text->size);
    buf_clear(text);

    write_key(w, keys->bytes);
    write_uint(w, output->total);
    write_key(w, keys->file);
    if (output->truncated && output_file(output, file, sizeof(file)))
        write_name(w, file);
    else
        write_nil(w);
}

static void write_streams(Writer *w, Cell *cell)
{
    static const StreamKeys keys[STREAMS] = {{"stdout", "stdout_bytes", "stdout_file"},
                                             {"stderr", "stderr_bytes", "stderr_file"}};
    _cleanup_(buf_deinit) Buf text = BUF_NULL;

    for (unsigned i = 0; i < STREAMS; i++)
        write_stream(w, &cell->output[i], &keys[i], &text);
    write_key(w, "truncated");
    write_bool(w, cell->output[0].truncated || cell->output[1].truncated);
}

static void write_error(Writer *w, const PythonError *error)
{
    write_key(w, "error");
    if (!error->name.data) {
        write_nil(w);
        return;
    }
    write_map(w, 3);
    write_key(w, "name");
    write_optional_text(w, error->name);
    write_key(w, "message");
    write_optional_text(w, error->message);
    write_key(w, "traceback");
    write_optional_text(w, error->traceback);
}

static void write_words(Writer *w, const Cell *cell)
{
    const Outcome *outcome = &cell->outcome;

    write_key(w, "result");
    write_optional_text(w, outcome->result);
    write_key(w, "changed");
    if (outcome->changed)
        write_object(w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *outcome->changed});
    else
        write_nil(w);
    write_key(w, "displays");
    displays_write(&cell->displays, w);
    write_error(w, &outcome->error);
}

static void write_end(Writer *w, const Outcome *outcome, double duration)
{
    write_key(w, "signal");
    if (outcome->signal > 0)
        write_int(w, outcome->signal);
    else
        write_nil(w);
    write_key(w, "exit_code");
    if (outcome->exit_code >= 0)
        write_int(w, outcome->exit_code);
    else
        write_nil(w);
    write_key(w, "duration");
    write_double(w, duration);
    write_key(w, "usage");
    write_map(w, 2);
    write_key(w, "cpu");
    write_double(w, outcome->cpu);
    write_key(w, "peak_memory");
    write_uint(w, outcome->peak_memory);
}

int cell_record(Cell *cell, const Fate *fate, uint64_t epoch, Buf *ret)
{
    Writer w;

    writer_message(&w, ret, MSG_EXECUTED, cell->id, 25);
    write_call(&w, cell);
    write_fate(&w, fate);
    write_protection(&w, &cell->protection);
    write_key(&w, "epoch");
    write_uint(&w, epoch);
    write_key(&w, "execution_count");
    write_uint(&w, cell->execution_count);
    write_streams(&w, cell);
    write_words(&w, cell);
    write_end(&w, &cell->outcome, cell->duration);
    return writer_finish(&w);
}
