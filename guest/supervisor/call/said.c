/* Messages of the interpreter of a call while it runs: output, displays, questions, its end. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/call/internal.h"

/* The bytes of unread answers after which an interpreter is not waiting for them: more than all questions may
 * have. */
#define UNREAD_MAXIMUM ((LIMIT_ASKS + 1) * LIMIT_ASK)

static bool is_of_call(const Cell *cell, const Message *message)
{
    return cell && cell->step == CELL_RUNS && message->id == cell->execution_count;
}

/* Code that spoke in its interpreter's place may have ended its call by words alone, and run on. */
static int refuse_foreign(const Cell *cell, const Message *message, Problem *problem)
{
    if (cell && message->id > 0 && message->id < cell->execution_count)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "call %" PRIu64 " ran on after it had said that it was over", message->id);
    return problem_set(problem, ERR_BAD_REQUEST, "`%s` that belongs to no call", message_name(message->kind));
}

/* Output and displays */

void executor_on_output(Executor *executor, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    Cell *cell = call_of(executor, branch);

    if (!cell || cell->step != CELL_RUNS) {
        branch_wrote(branch, stream, bytes, n);
        return;
    }
    cell_output(cell, executor->link, stream, bytes, n);
    if (!cell_takes_output(cell))
        call_update_flow(executor, branch);
}

static int on_display(Executor *executor, Cell *cell, const Message *message, Problem *problem)
{
    MsgDisplay display;
    int r;

    if (!is_of_call(cell, message))
        return refuse_foreign(cell, message, problem);
    r = display_decode(&display, &message->body, problem);
    if (r == 0)
        cell_display(cell, executor->link, &display);
    return r;
}

/* Questions */

/* Sends an answer to the interpreter. Negative with a Problem: it is not spoken to any more. */
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
    if (cell->questions.mode != ASK_PAUSE)
        return;
    if (cell->questions.count > 0)
        ladder_pause(&cell->ladder);
    else
        ladder_resume(&cell->ladder);
}

/* Output that was written before a question is sent before it. As long as that cannot be sent, the question
 * waits. */
void call_send_questions(Executor *executor)
{
    Cell *cell = executor->cell;

    if (!cell || !questions_unsent(&cell->questions) || !executor->link->accepted || !cell_takes_output(cell))
        return;
    if (cell->attention.paid)
        streams_drain(&cell->branch->interpreter.streams);
    questions_send(&cell->questions, executor->link);
}

static int on_ask(Executor *executor, Branch *branch, const Message *message, Problem *problem)
{
    Cell *cell = call_of(executor, branch);
    MsgAsk question;
    const char *why = "no call of this question runs";
    int r = question_decode(&question, &message->body, problem);

    if (r < 0)
        return r;
    if (is_of_call(cell, message))
        why = questions_add(&cell->questions, cell->id, &question);
    if (why) {
        MsgAnswer refusal = question_refusal(&question, why);

        return answer(&branch->interpreter, message->id, &refusal, problem);
    }
    update_deadline(cell);
    call_send_questions(executor);
    return 0;
}

int executor_answer(Executor *executor, const Message *message, Problem *problem)
{
    Cell *cell = executor->cell;
    MsgAnswer said;
    int r = answer_decode(&said, &message->body, problem);

    if (r < 0 || !cell || cell->step != CELL_RUNS || cell->id != message->id ||
        !questions_take(&cell->questions, said.ask))
        return r;
    update_deadline(cell);
    if (answer(&cell->branch->interpreter, cell->execution_count, &said, problem) < 0)
        branch_doom(cell->branch, problem->text);
    return 0;
}

/* The end */

/* Ends a call whose effects are undone. */
static void end_undone(Cell *cell)
{
    /* Without memory its words are lost, not the rest. */
    if (outcome_own(&cell->outcome, &cell->words) < 0)
        outcome_failed(&cell->outcome, "MemoryError", "what the call said cannot be kept", strerror(ENOMEM));
    call_ended(cell);
    branch_undo(cell->branch);
}

static int on_executed(Executor *executor, Cell *cell, const Message *message, Problem *problem)
{
    MsgCellExecuted executed;

    if (!is_of_call(cell, message))
        return refuse_foreign(cell, message, problem);

    int r = executed_decode(&executed, &cell->displays, &message->body, problem);
    if (r < 0)
        return r;
    streams_drain(&cell->branch->interpreter.streams);
    branch_executed(cell->branch, executed.cpu, executed.spawned);
    outcome_finished(&cell->outcome, &executed, cell->ladder.cause, cell->timeout);
    if (cell->undo && strcmp(cell->outcome.status, "ok") != 0)
        end_undone(cell);
    else
        call_finish_kept(executor);
    return 0;
}

/* The call's end, and its questions, come too late from an interpreter that has been ended. */
int executor_on_message(Executor *executor, Branch *branch, const Message *message, Problem *problem)
{
    bool late = branch->interpreter.closing;

    switch (message->kind) {
    case MSG_DISPLAY:
        return on_display(executor, call_of(executor, branch), message, problem);
    case MSG_EXECUTED:
        return late ? 0 : on_executed(executor, call_of(executor, branch), message, problem);
    case MSG_ASK:
        return late ? 0 : on_ask(executor, branch, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s",
                           message_name(message->kind));
    }
}
