#include "guest/supervisor/branch.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/processes.h"
#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* One that has not said `ready` after this is broken. */
#define START_LIMIT (30 * NSEC_PER_SEC)
#define COPY_LIMIT  (3 * NSEC_PER_SEC)

static int on_message(Interpreter *interpreter, const Message *message, Problem *problem);

static Branch *branch_from(Interpreter *interpreter)
{
    return container_of(interpreter, Branch, interpreter);
}

static void on_output(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n)
{
    call_on_output(branch_from(interpreter), stream, bytes, n);
}

static void on_fault(Interpreter *interpreter, const char *reason)
{
    branch_lose(branch_from(interpreter), &(Loss){.fault = reason});
}

Branch *branch_new(Supervisor *supervisor, uint64_t number)
{
    Branch *branch = calloc(1, sizeof(*branch));

    if (!branch)
        return NULL;
    branch->supervisor = supervisor;
    branch->number = number;
    branch->epoch = 1;
    interpreter_init(&branch->interpreter, supervisor->loop);
    branch->interpreter.on_message = on_message;
    branch->interpreter.on_output = on_output;
    branch->interpreter.on_fault = on_fault;
    list_append(&supervisor->branches, &branch->link);
    supervisor->branch_count++;
    return policy_init(branch) == 0 ? branch : branch_free(branch);
}

Branch *branch_free(Branch *branch)
{
    if (!branch)
        return NULL;
    loop_timer_cancel(&branch->start);
    policy_deinit(branch);
    interpreter_deinit(&branch->interpreter);
    fate_deinit(&branch->untold);
    list_remove(&branch->link);
    branch->supervisor->branch_count--;
    free(branch);
    return NULL;
}

void branch_end(Branch *branch)
{
    branch->ending = true;
    branch_end_processes(branch);
    recovery_abandon(branch);
    branch_finish_reset(branch);
    branch_free(branch);
}

bool branch_is_ready(const Branch *branch)
{
    return branch->interpreter.alive && branch->interpreter.ready;
}

bool branch_is_exact(const Branch *branch)
{
    return branch->base && branch->calls == 0;
}

uint64_t branch_state_count(const Branch *branch)
{
    if (branch->calls > 0)
        return branch->state_count;
    return branch->base ? branch->base->execution_count : 0;
}

void branch_protection(const Branch *branch, Protection *ret)
{
    const Checkpoint *checkpoint = branch->base;

    while (checkpoint && checkpoint->state != CHECKPOINT_KEPT)
        checkpoint = checkpoint->parent;
    *ret = (Protection){.exists = checkpoint};
    if (checkpoint) {
        ret->execution_count = checkpoint->execution_count;
        return;
    }
    policy_why_none(branch, ret->reason);
    if (!ret->reason[0])
        reason_set(ret->reason, "%s", fate_no_checkpoint);
}

/* Starting */

static void on_start_due(LoopTimer *timer)
{
    branch_lose(container_of(timer, Branch, start), &(Loss){.fault = "it did not get ready in time"});
}

static int await_ready(Branch *branch, uint64_t end)
{
    return loop_timer_set(branch->supervisor->loop, &branch->start, end, on_start_due);
}

/* Also when no interpreter could be started: the old one is gone, and the next call will tell. */
void branch_finish_reset(Branch *branch)
{
    Controller *controller = &branch->supervisor->controller;

    if (!branch->resetting)
        return;
    branch->resetting = false;
    controller_reply(controller, branch->reset_id, MsgEpoch, &(MsgEpoch){.epoch = branch->epoch});
}

int branch_start(Branch *branch)
{
    return branch_begin_anew(branch) ? 0 : branch_spawn(branch);
}

int branch_spawn(Branch *branch)
{
    Supervisor *supervisor = branch->supervisor;
    const Settings *settings = &supervisor->settings;
    int r = await_ready(branch, clock_now() + START_LIMIT);

    branch->outdated = false;
    if (r == 0)
        r = interpreter_start(&branch->interpreter, supervisor->options, &settings->environment,
                              settings->memory);
    if (r == 0)
        return 0;
    loop_timer_cancel(&branch->start);
    branch_start_failed(branch, strerror(-r));
    return r;
}

/* Those who wait for it are told; the next call tries again, so that a broken image does not spin. */
void branch_start_failed(Branch *branch, const char *why)
{
    Supervisor *supervisor = branch->supervisor;

    log_error("interpreter not started", "branch=%" PRIu64 " reason=%s", branch->number, why);
    reason_set(branch->failure, "%s", why);
    if (call_of(branch))
        call_abandon(supervisor, "InterpreterFailed", "the interpreter could not be started", why);
    branch_finish_reset(branch);
    spare_on_start_failed(supervisor);
    supervisor_wake(supervisor);
}

int branch_copy(Branch *branch, Checkpoint *checkpoint)
{
    bool birth = checkpoint->kind == CHECKPOINT_BIRTH;
    int r = await_ready(branch, MIN(clock_now() + COPY_LIMIT, branch->recovery.end));

    branch->outdated = birth && branch->supervisor->environment_changed;
    branch->recovery.restore = ++checkpoint->restores;
    if (r == 0)
        r = interpreter_copy(&branch->interpreter, checkpoint->channel, checkpoint->restores,
                             birth || branch->newborn);
    if (r < 0)
        loop_timer_cancel(&branch->start);
    return r;
}

/* What the interpreter says */

static int check_copy(const Branch *branch, Problem *problem)
{
    Checkpoints *set = &branch->supervisor->checkpoints;
    pid_t sender = branch->interpreter.sender;

    if (!processes_is_child(sender) || checkpoints_find_pid(set, sender) || set->is_taken(set, sender))
        return problem_set(problem, ERR_BAD_REQUEST, "process %d is no copy of a checkpoint", (int)sender);
    return 0;
}

static int decode_ready(const Message *message, Notes *ret, Problem *problem)
{
    MsgReady ready;
    int r = body_decode(&ready, MsgReady, &message->body, problem);

    if (r == 0)
        notes_add_all(ret, &ready.not_restored);
    return r;
}

static int on_ready(Branch *branch, const Message *message, Problem *problem)
{
    Interpreter *interpreter = &branch->interpreter;
    Notes notes _cleanup_(notes_deinit) = NOTES_NULL;
    int r;

    if (branch->recovery.active)
        recovery_note_processes(branch, &notes);
    if (branch->recovery.active && !branch->recovery.copying)
        return 0; /* it has been given up, and is about to be ended */
    r = decode_ready(message, &notes, problem);
    if (r == 0 && interpreter->copied)
        r = check_copy(branch, problem);
    if (r < 0)
        return r;
    loop_timer_cancel(&branch->start);
    interpreter_ready(interpreter);
    log_info("interpreter ready", "branch=%" PRIu64 " pid=%d", branch->number, (int)interpreter->pid);
    if (branch->recovery.active)
        recovery_ready(branch, &notes);
    spare_on_ready(branch);
    branch_finish_reset(branch);
    policy_on_quiet(branch, clock_now());
    call_try_begin(branch->supervisor);
    supervisor_wake(branch->supervisor);
    return 0;
}

static int unexpected(const Message *message, Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s", message_name(message->kind));
}

static int on_message(Interpreter *interpreter, const Message *message, Problem *problem)
{
    Branch *branch = branch_from(interpreter);

    if (interpreter->ready == (message->kind == MSG_READY))
        return unexpected(message, problem);
    switch (message->kind) {
    case MSG_READY:
        return interpreter->alive ? on_ready(branch, message, problem) : 0;
    case MSG_DISPLAY:
        return call_on_display(branch, message, problem);
    case MSG_EXECUTED:
        return branch->ending ? 0 : call_on_executed(branch, message, problem);
    case MSG_CHECKPOINTED:
        return branch_on_checkpointed(branch, message, problem);
    case MSG_NAMESPACE:
        return order_on_namespace(branch, message, problem);
    case MSG_PREPARED:
        return spare_on_prepared(branch, message, problem);
    case MSG_ASK:
        return branch->ending ? 0 : call_on_ask(branch, message, problem);
    default:
        return unexpected(message, problem);
    }
}
