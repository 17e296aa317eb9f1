#include "guest/supervisor/call/cell.h"

#include <string.h>

#include "guest/channel.h"

/* Credit that is kept back while the cell runs, so that what pipes and rings hold at its end can still be
 * sent. For each stream that is twice what an event takes, and up to three events where they follow each
 * other. */
#define CREDIT_RESERVE (3 * STREAMS)

static int encode_request(Cell *cell, const MsgExecute *asked)
{
    const MsgCell request = {
        .code = asked->code,
        .run_id = asked->run_id,
        .execution_count = cell->execution_count,
        .asks = cell->questions.mode != ASK_NOBODY,
    };

    return channel_say(&cell->request, MSG_EXECUTE, cell->execution_count, MsgCell, &request);
}

static void init_outputs(Cell *cell, const CellLimits *limits)
{
    static const char *const names[STREAMS] = {"stdout", "stderr"};

    for (unsigned i = 0; i < STREAMS; i++)
        output_init(&cell->output[i], limits->output, &limits->spill,
                    (SpillName){cell->branch_number, cell->execution_count, names[i]});
}

Cell *cell_new(Branch *branch, uint64_t id, const MsgExecute *asked, uint64_t execution_count,
               const CellLimits *limits)
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
    cell->stream = cell->attended = asked->stream;
    cell->undo = text_equal(asked->on_error, "rollback");
    cell->credit = LIMIT_CREDIT;
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
    for (unsigned i = 0; i < STREAMS; i++)
        output_deinit(&cell->output[i]);
    displays_deinit(&cell->displays);
    questions_deinit(&cell->questions);
    buf_deinit(&cell->request);
    buf_deinit(&cell->words);
    free(cell);
    return NULL;
}

static void send_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n)
{
    const MsgOutput output = {.stream = stream, .data = {(const char *)bytes, n}};

    if (link_say(link, MSG_OUTPUT, cell->id, MsgOutput, &output) == 0)
        cell->credit--;
}

void cell_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n)
{
    output_write(&cell->output[stream - 1], bytes, n);
    if (cell->attended && cell->credit > 0 && link_has_room(link))
        send_output(cell, link, stream, bytes, n);
}

void cell_display(Cell *cell, Link *link, const MsgDisplay *display)
{
    MsgDisplay event = *display;

    if (!displays_add(&cell->displays, display) || !cell->attended || !link_has_room(link))
        return;
    event.metadata = display_metadata(display);
    link_say(link, MSG_DISPLAY, cell->id, MsgDisplay, &event);
}

void cell_unattended(Cell *cell)
{
    cell->attended = false;
    cell->credit = 0;
    questions_send_again(&cell->questions);
}

void cell_credit(Cell *cell, uint64_t count)
{
    cell->attended = cell->stream;
    cell->credit = (unsigned)MIN(count, LIMIT_CREDIT - cell->credit) + cell->credit;
}

bool cell_takes_output(const Cell *cell)
{
    return !cell->attended || cell->credit > CREDIT_RESERVE || cell->ladder.step != LADDER_STEP_WAIT;
}
