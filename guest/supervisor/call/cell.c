#include "guest/supervisor/call/cell.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guest/channel.h"

static int encode_request(Cell *cell, const MsgExecute *asked)
{
    const MsgCell request = {
        .code = asked->code,
        .run_id = asked->run_id,
        .execution_count = cell->execution_count,
        .asks = cell->questions.mode != ASK_NOBODY,
        .script = asked->script,
        .last = asked->last,
    };

    return channel_say(&cell->request, MSG_EXECUTE, cell->execution_count, MsgCell, &request);
}

static void init_outputs(Cell *cell, const OutputLimits *limits)
{
    char stem[SPILL_STEM];

    if (cell->branch_number > 0)
        snprintf(stem, sizeof(stem), "%" PRIu64 "-%" PRIu64, cell->branch_number, cell->execution_count);
    else
        snprintf(stem, sizeof(stem), "%" PRIu64, cell->execution_count);
    outputs_init(cell->output, limits, stem);
    for (unsigned i = 0; i < STREAMS; i++)
        output_init(&cell->between[i], 0, &limits->spill, "");
}

Cell *cell_new(Branch *branch, uint64_t id, const MsgExecute *asked, uint64_t execution_count,
               const OutputLimits *limits)
{
    Cell *cell = calloc(1, sizeof(*cell));

    if (!cell)
        return NULL;
    cell->branch = branch;
    cell->branch_number = uint_or(asked->branch, 0);
    cell->id = id;
    cell->execution_count = execution_count;
    cell->code_hash = uint_or(asked->code_hash, 0);
    cell->timeout = asked->timeout;
    attention_begin(&cell->attention, asked->stream);
    cell->undo = text_equal(asked->on_error, "rollback");
    if (asked->run_id.size > 0)
        memcpy(cell->run_id, asked->run_id.data, MIN(asked->run_id.size, LIMIT_RUN_ID));
    init_outputs(cell, limits);
    displays_init(&cell->displays);
    questions_init(&cell->questions, ask_mode_parse(asked->asks));
    return encode_request(cell, asked) == 0 ? cell : cell_free(cell);
}

Cell *cell_free(Cell *cell)
{
    if (!cell)
        return NULL;
    ladder_end(&cell->ladder);
    outputs_deinit(cell->output);
    outputs_deinit(cell->between);
    displays_deinit(&cell->displays);
    questions_deinit(&cell->questions);
    buf_deinit(&cell->request);
    buf_deinit(&cell->words);
    free(cell);
    return NULL;
}

void cell_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n)
{
    output_write(&cell->output[stream - 1], bytes, n);
    attention_output(&cell->attention, link, cell->id, stream, bytes, n);
}

void cell_display(Cell *cell, Link *link, const MsgDisplay *display)
{
    MsgDisplay event = *display;

    if (!displays_add(&cell->displays, display) || !cell->attention.paid || !link_has_room(link))
        return;
    event.metadata = display_metadata(display);
    link_say(link, MSG_DISPLAY, cell->id, MsgDisplay, &event);
}

void cell_unattended(Cell *cell)
{
    attention_lost(&cell->attention);
    questions_send_again(&cell->questions);
}

void cell_credit(Cell *cell, uint64_t count)
{
    attention_credit(&cell->attention, count);
}

bool cell_takes_output(const Cell *cell)
{
    return attention_takes(&cell->attention) || cell->ladder.step != LADDER_STEP_WAIT;
}
