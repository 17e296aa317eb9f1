/* What a hostile interpreter sends on its channel: frames, displays, the end of a cell. Whatever is accepted
 * must make a record that passes the reader's checks. */
#include <stdlib.h>

#include "guest/channel.h"
#include "guest/supervisor/cell.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(Cell *cell, const Outcome *outcome)
{
    _cleanup_(buf_deinit) Buf record = BUF_NULL;
    Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (cell_record(cell, outcome, 1, &record) < 0 || record.size > LIMIT_GUEST_FRAME ||
        message_decode(&message, buf_head(&record), record.size, &problem) < 0)
        abort();
    message_deinit(&message);
}

/* Whether the interpreter may go on. */
static bool take_message(Cell *cell, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    Outcome outcome;
    Executed executed;
    Display display;

    if (message->kind == MSG_DISPLAY && display_decode(&display, &message->body, &problem) == 0) {
        displays_add(&cell->displays, &display);
        return true;
    }
    if (message->kind == MSG_EXECUTED &&
        executed_decode(&executed, &cell->displays, &message->body, &problem) == 0)
        outcome_finished(&outcome, &executed, LADDER_CAUSE_NONE, 1);
    else
        outcome_lost(&outcome, &(Loss){.fault = problem.text});
    check_record(cell, &outcome);
    return false;
}

static void run(Cell *cell, Buf *in)
{
    ChannelFrame frame;
    bool going = true;

    while (going && channel_next(in, LIMIT_GUEST_FRAME, &frame) > 0) {
        Message message = MESSAGE_NULL;
        Problem problem = PROBLEM_NULL;

        going =
            message_decode(&message, frame.data, frame.size, &problem) == 0 && take_message(cell, &message);
        message_deinit(&message);
        buf_consume(in, frame.used);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CellLimits limits = {.output = 16, .spill = SPILL_NONE};
    _cleanup_(buf_deinit) Buf in = BUF_NULL;
    Cell *cell = cell_new(1, 1, &limits);

    if (!cell || buf_append(&in, data, size) < 0)
        abort();
    output_write(&cell->output[0], data, size);
    run(cell, &in);
    cell_free(cell);
    return 0;
}
