/* The questions of the running call: from the interpreter to the controller, and the answers back. */
#include <errno.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"

/* More than the answers to all questions that may wait: who does not read them is not waiting for them. */
#define UNREAD_MAXIMUM ((LIMIT_ASKS + 1) * LIMIT_ASK)

/* 0, or negative with a Problem: it is not to be spoken to any more. */
static int answer(Interpreter *interpreter, uint64_t id, const MsgAnswer *answer, Problem *problem)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    if (interpreter->out.size > UNREAD_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "it does not read the answers to its questions");
    r = answer_encode(&frame, id, answer);
    if (r == 0)
        r = interpreter_send(interpreter, &frame);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "%s", strerror(-r)) : 0;
}

/* With ASK_PAUSE the deadline comes no nearer while a question waits. */
static void update_deadline(Cell *cell)
{
    if (cell->asks.mode != ASK_PAUSE)
        return;
    if (cell->asks.count > 0)
        ladder_pause(&cell->ladder);
    else
        ladder_resume(&cell->ladder);
}

/* What was written before a question comes before it; as long as that cannot be sent, the question waits. */
void call_send_asks(Supervisor *supervisor)
{
    Cell *cell = supervisor->cell;
    Controller *controller = &supervisor->controller;

    if (!cell || !asks_unsent(&cell->asks) || !controller->welcomed || !cell_takes_output(cell))
        return;
    if (cell->attended)
        streams_drain(&cell->branch->interpreter.streams);
    asks_send(&cell->asks, &controller->link);
}

int call_on_ask(Branch *branch, const Message *message, Problem *problem)
{
    Cell *cell = call_of(branch);
    MsgAsk question;
    const char *why = "no call of this question runs";
    int r = question_decode(&question, &message->body, problem);

    if (r < 0)
        return r;
    if (cell && cell->step == CELL_RUNS && message->id == cell->execution_count)
        why = asks_add(&cell->asks, cell->id, &question);
    if (why) {
        MsgAnswer refusal = question_refusal(&question, why);

        return answer(&branch->interpreter, message->id, &refusal, problem);
    }
    update_deadline(cell);
    call_send_asks(branch->supervisor);
    return 0;
}

int supervisor_answer(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Cell *cell = supervisor->cell;
    MsgAnswer said;
    int r = answer_decode(&said, &message->body, problem);

    if (r < 0 || !cell || cell->step != CELL_RUNS || cell->id != message->id ||
        !asks_take(&cell->asks, said.ask))
        return r;
    update_deadline(cell);
    if (answer(&cell->branch->interpreter, cell->execution_count, &said, problem) < 0)
        branch_doom(cell->branch, problem->text);
    return 0;
}
