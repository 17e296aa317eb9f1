#include "guest/supervisor/cell.h"

#include <string.h>

#include "guest/channel.h"

/* Kept back while the cell runs, so that what pipes and rings hold at its end can still be sent: twice as
 * much as an event takes, in three of them where they follow each other. */
#define CREDIT_RESERVE (3 * STREAMS)

static int encode_request(Cell *cell, const Call *call)
{
    const MsgCell request = {
        .code = call->code,
        .run_id = call->run_id,
        .execution_count = cell->execution_count,
        .asks = call->asks != ASK_NOBODY,
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

Cell *cell_new(Branch *branch, const Call *call, uint64_t execution_count, const CellLimits *limits)
{
    Cell *cell = calloc(1, sizeof(*cell));

    if (!cell)
        return NULL;
    cell->branch = branch;
    cell->branch_number = call->branch;
    cell->id = call->id;
    cell->execution_count = execution_count;
    cell->code_hash = call->code_hash;
    cell->timeout = call->timeout;
    cell->stream = cell->attended = call->stream;
    cell->undo = call->undo;
    cell->credit = LIMIT_CREDIT;
    if (call->run_id.size > 0)
        memcpy(cell->run_id, call->run_id.data, MIN(call->run_id.size, LIMIT_RUN_ID));
    init_outputs(cell, limits);
    displays_init(&cell->displays);
    asks_init(&cell->asks, call->asks);
    return encode_request(cell, call) == 0 ? cell : cell_free(cell);
}

Cell *cell_free(Cell *cell)
{
    if (!cell)
        return NULL;
    ladder_end(&cell->ladder);
    for (unsigned i = 0; i < STREAMS; i++)
        output_deinit(&cell->output[i]);
    displays_deinit(&cell->displays);
    asks_deinit(&cell->asks);
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
    asks_send_again(&cell->asks);
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
