#include "guest/supervisor/call/outcome.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static void outcome_begin(Outcome *outcome, const char *status)
{
    *outcome = (Outcome){.status = status, .exit_code = -1};
}

/* Sets an error that Python did not report. The message is what was written to outcome->message. */
static void set_error(Outcome *outcome, const char *name)
{
    words_make_text(outcome->message);
    outcome->error = (MsgPythonError){text_of(name), text_of(outcome->message), text_of("")};
}

void outcome_finished(Outcome *ret, const MsgCellExecuted *executed, LadderCause cause, double timeout)
{
    bool raised = executed->error.name.data;

    outcome_begin(ret, cause == LADDER_CAUSE_DEADLINE    ? "timeout"
                       : cause == LADDER_CAUSE_INTERRUPT ? "interrupted"
                       : raised                          ? "error"
                                                         : "ok");
    ret->result = executed->result;
    ret->error = executed->error;
    ret->has_changed = executed->has_changed;
    ret->changed = executed->changed;
    ret->memory = executed->memory;
    ret->cpu = executed->cpu;
    ret->peak_memory = executed->peak_memory;
    if (raised || cause == LADDER_CAUSE_NONE)
        return;
    ret->speaks_of_state = true;
    if (cause == LADDER_CAUSE_DEADLINE) {
        snprintf(ret->message, sizeof(ret->message),
                 "the call was interrupted after %g s, caught that, and ended by itself", timeout);
        set_error(ret, "Timeout");
    } else {
        snprintf(ret->message, sizeof(ret->message),
                 "the call was interrupted, caught that, and ended by itself");
        set_error(ret, "Interrupted");
    }
}

static void move_text(Text *text, const Outcome *outcome, Buf *into)
{
    const char *at = (const char *)buf_head(into) + into->size;

    if (!text->data || text->data == outcome->message)
        return;
    buf_append(into, text->data, text->size); /* there is room, so `into` does not move */
    text->data = at;
}

int outcome_own(Outcome *outcome, Buf *into)
{
    Text *texts[] = {&outcome->result, &outcome->error.name, &outcome->error.message,
                     &outcome->error.traceback};
    size_t size = 1;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        size += texts[i]->size;
    if (!buf_reserve(into, size))
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        move_text(texts[i], outcome, into);
    outcome->has_changed = false;
    outcome->memory = (Value){0};
    return 0;
}

static const char *describe_kill(Outcome *outcome, const Loss *loss)
{
    if (loss->killed == LADDER_CAUSE_DEADLINE) {
        outcome->status = "timeout";
        snprintf(outcome->message, sizeof(outcome->message),
                 loss->waited ? "the call could not begin within %g s, as its interpreter did not make a "
                                "checkpoint (a thread of the code may keep it busy), so it was killed"
                              : "the call did not end within %g s or when it was interrupted, so its "
                                "interpreter was killed",
                 loss->timeout);
        return "TimeoutKilled";
    }
    outcome->status = "interrupted";
    snprintf(outcome->message, sizeof(outcome->message), "%s",
             loss->reset ? "the session was reset during the call, so its interpreter was killed"
                         : "the call did not end when it was interrupted, so its interpreter was killed");
    return "InterruptKilled";
}

static const char *describe_signal(Outcome *outcome, int number)
{
    const char *name = sigabbrev_np(number);

    outcome->status = "crashed";
    outcome->signal = number;
    snprintf(outcome->message, sizeof(outcome->message), "the interpreter was ended by signal %d (SIG%s)%s",
             number, name ? name : "?", number == SIGKILL ? ", as the kernel does when memory runs out" : "");
    return "Crashed";
}

static const char *describe_death(Outcome *outcome, const Loss *loss)
{
    if (loss->fault) {
        outcome->status = "crashed";
        snprintf(outcome->message, sizeof(outcome->message),
                 "the interpreter broke the protocol and was killed: %.512s", loss->fault);
        return "Crashed";
    }
    if (WIFSIGNALED(loss->status))
        return describe_signal(outcome, WTERMSIG(loss->status));
    outcome->status = "exited";
    outcome->exit_code = WEXITSTATUS(loss->status);
    snprintf(outcome->message, sizeof(outcome->message), "the code ended its interpreter with exit code %d",
             outcome->exit_code);
    return "Exited";
}

void outcome_lost(Outcome *ret, const Loss *loss)
{
    outcome_begin(ret, NULL);

    const char *name =
        loss->killed != LADDER_CAUSE_NONE ? describe_kill(ret, loss) : describe_death(ret, loss);

    ret->speaks_of_state = true;
    set_error(ret, name);
}

void outcome_failed(Outcome *ret, const char *name, const char *what, const char *why)
{
    outcome_begin(ret, "failed");
    snprintf(ret->message, sizeof(ret->message), "%s: %.512s", what, why);
    set_error(ret, name);
}

void outcome_never_begun(Outcome *ret)
{
    outcome_begin(ret, "interrupted");
    snprintf(ret->message, sizeof(ret->message), "the call was interrupted before it started");
    set_error(ret, "Interrupted");
}

void outcome_too_late(Outcome *ret, double timeout)
{
    outcome_begin(ret, "timeout");
    snprintf(ret->message, sizeof(ret->message),
             "the call was not run: making the checkpoint to roll back to took longer than its %g s",
             timeout);
    set_error(ret, "Timeout");
}

void outcome_settle(Outcome *outcome, const Fate *fate)
{
    if (fate->state != STATE_KEPT)
        outcome->has_changed = false;
    if (!outcome->speaks_of_state)
        return;
    fate_describe(fate, outcome->message, sizeof(outcome->message));
    outcome->error.message = text_of(outcome->message);
}
