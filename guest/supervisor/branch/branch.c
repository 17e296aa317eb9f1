#include "guest/supervisor/branch/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* An interpreter that has not said `ready` after this is broken. */
#define START_LIMIT (30 * NSEC_PER_SEC)
#define COPY_LIMIT  (3 * NSEC_PER_SEC)

static int on_message(Interpreter *interpreter, const Message *message, Problem *problem);

static Branch *branch_from(Interpreter *interpreter)
{
    return container_of(interpreter, Branch, interpreter);
}

static void on_output(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n)
{
    Branch *branch = branch_from(interpreter);

    branch->set->events->output(branch, stream, bytes, n);
}

/* Children of an earlier call have written. */
static void on_late(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n)
{
    branch_wrote(branch_from(interpreter), stream, bytes, n);
}

static void on_fault(Interpreter *interpreter, const char *reason)
{
    branch_lose(branch_from(interpreter), reason);
}

static void init_between(Branch *branch)
{
    static const Spill nowhere = SPILL_NONE;

    for (unsigned i = 0; i < STREAMS; i++)
        output_init(&branch->between[i], LIMIT_BETWEEN, &nowhere, "");
}

Branch *branch_new(Branches *set, uint64_t number)
{
    Branch *branch = calloc(1, sizeof(*branch));

    if (!branch)
        return NULL;
    branch->set = set;
    branch->number = number;
    branch->epoch = 1;
    init_between(branch);
    interpreter_init(&branch->interpreter, set->loop);
    branch->interpreter.on_message = on_message;
    branch->interpreter.on_output = on_output;
    branch->interpreter.on_late = on_late;
    branch->interpreter.on_fault = on_fault;
    list_append(&set->all, &branch->link);
    set->count++;
    return policy_init(branch) == 0 ? branch : branch_free(branch);
}

Branch *branch_new_from(const Branch *from, uint64_t number)
{
    Branch *branch = branch_new(from->set, number);

    if (!branch)
        return NULL;
    branch->newborn = true;
    branch->execution_count = from->execution_count;
    if (branch_set_place(branch, (Text){0}, text_of(from->place.cwd)) < 0)
        return branch_free(branch);
    return branch;
}

Branch *branch_free(Branch *branch)
{
    if (!branch)
        return NULL;
    loop_timer_cancel(&branch->start);
    policy_deinit(branch);
    interpreter_deinit(&branch->interpreter);
    fate_deinit(&branch->untold);
    notes_deinit(&branch->restored);
    outputs_deinit(branch->between);
    free(branch->place.cwd);
    list_remove(&branch->link);
    branch->set->count--;
    free(branch);
    return NULL;
}

void branch_end(Branch *branch)
{
    branch_end_processes(branch);
    branch_forget_line(branch);
    branch->set->events->ended(branch);
    branch_free(branch);
}

bool branch_is_ready(const Branch *branch)
{
    return branch->interpreter.step == INTERPRETER_READY && !branch->interpreter.closing;
}

int branch_set_place(Branch *branch, Text language, Text cwd)
{
    if (language.size > 0)
        memcpy(branch->place.language, language.data, language.size);
    if (!cwd.data)
        return 0;
    branch->place.cwd = text_dup(cwd);
    return branch->place.cwd ? 0 : -ENOMEM;
}

static bool has_place(const Branch *branch)
{
    return branch->place.language[0] || branch->place.cwd;
}

bool branch_is_foreign(const Branch *branch)
{
    return branch->place.language[0];
}

bool branch_is_recovering(const Branch *branch)
{
    return branch->recovery.step != RECOVERY_NONE;
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

    while (checkpoint && checkpoint_is_pending(checkpoint))
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

/* Calls */

void branch_occupy(Branch *branch, uint64_t execution_count, uint64_t now)
{
    policy_on_run(branch, now);
    branch->occupied = true;
    branch->calls++;
    branch->state_count = execution_count;
}

void branch_call_ended(Branch *branch, uint64_t busy, uint64_t now)
{
    branch->policy.busy += busy;
    policy_on_quiet(branch, now);
}

void branch_executed(Branch *branch, double cpu, bool spawned)
{
    interpreter_executed(&branch->interpreter, cpu, spawned);
    branch->idle_losses = 0;
}

void branch_wrote(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    output_write(&branch->between[stream - 1], bytes, n);
}

void branch_take_between(Branch *branch, Output ret[STREAMS])
{
    memcpy(ret, branch->between, sizeof(branch->between));
    init_between(branch);
}

void branch_forget_between(Branch *branch)
{
    outputs_deinit(branch->between);
    init_between(branch);
}

void branch_vacate(Branch *branch)
{
    branch->occupied = false;
}

void branch_take_place(Branch *branch, Branch *of)
{
    Branches *set = branch->set;
    uint64_t former = branch->number;
    Checkpoint *checkpoint;

    branch_end_processes(of);
    branch->epoch = of->epoch + 1;
    branch->execution_count = MAX(branch->execution_count, of->execution_count);
    list_remove(&branch->link);
    list_append(of->link.next, &branch->link); /* right behind it */
    branch->number = of->number;
    branch_end(of); /* takes the automatic checkpoints of that number with it */
    list_foreach (checkpoint, &set->checkpoints.all, Checkpoint, link)
        if (checkpoint->kind == CHECKPOINT_AUTOMATIC && checkpoint->branch == former)
            checkpoint->branch = branch->number;
}

/* Starting */

static void on_start_due(LoopTimer *timer)
{
    branch_lose(container_of(timer, Branch, start), "it did not get ready in time");
}

static int await_ready(Branch *branch, uint64_t end)
{
    return loop_timer_set(branch->set->loop, &branch->start, end, on_start_due);
}

int branch_start(Branch *branch)
{
    return branch_begin_anew(branch) ? 0 : branch_spawn(branch);
}

int branch_spawn(Branch *branch)
{
    const Branches *set = branch->set;
    int r = await_ready(branch, clock_now() + START_LIMIT);

    branch->outdated = branch->unproxied = false;
    branch->unplaced = has_place(branch);
    if (r == 0)
        r = interpreter_start(&branch->interpreter, set->command_line, &set->environment, set->memory);
    if (r == 0)
        return 0;
    loop_timer_cancel(&branch->start);
    branch_start_failed(branch, strerror(-r));
    return r;
}

/* Only the next call tries again, so that a broken image does not spin. */
void branch_start_failed(Branch *branch, const char *why)
{
    log_error("interpreter not started", "branch=%" PRIu64 " reason=%s", branch->number, why);
    reason_set(branch->failure, "%s", why);
    branch->set->events->start_failed(branch, why);
    branches_changed(branch->set);
}

int branch_copy(Branch *branch, Checkpoint *checkpoint)
{
    bool birth = checkpoint->kind == CHECKPOINT_BIRTH;
    const MsgRestore restore = {.branched = birth || branch->newborn || branch->forked,
                                .memory = branch->recovery.killed};
    int r = await_ready(branch, MIN(clock_now() + COPY_LIMIT, branch->recovery.end));

    branch->outdated = birth && branch->set->environment_changed;
    branch->unproxied = branch->set->proxied_late;
    branch->unplaced = birth && has_place(branch);
    branch->recovery.restore = ++checkpoint->restores;
    if (r == 0)
        r = interpreter_copy(&branch->interpreter, checkpoint->channel, checkpoint->restores, &restore);
    if (r < 0)
        loop_timer_cancel(&branch->start);
    return r;
}

/* What the interpreter says */

static int check_copy(const Branch *branch, Problem *problem)
{
    Checkpoints *checkpoints = &branch->set->checkpoints;
    pid_t sender = branch->interpreter.sender;

    if (!processes_is_child(sender) || checkpoints_find_pid(checkpoints, sender) ||
        checkpoints->is_taken(checkpoints, sender))
        return problem_set(problem, ERR_BAD_REQUEST, "process %d is no copy of a checkpoint", (int)sender);
    return 0;
}

static int decode_ready(const Message *message, MsgReady *ret, EncodedNotes *notes, Problem *problem)
{
    int r = body_decode(ret, MsgReady, &message->body, problem);

    if (r == 0)
        notes_add_all(notes, &ret->not_restored);
    return r;
}

static int on_ready(Branch *branch, const Message *message, Problem *problem)
{
    Interpreter *interpreter = &branch->interpreter;
    EncodedNotes notes _cleanup_(notes_deinit) = NOTES_NULL;
    MsgReady ready;
    int r;

    if (branch_is_recovering(branch))
        recovery_note_processes(branch, &notes);
    if (branch->recovery.step == RECOVERY_TRIES)
        return 0; /* it has been given up, and is about to be ended */
    r = decode_ready(message, &ready, &notes, problem);
    if (r == 0 && interpreter->copied)
        r = check_copy(branch, problem);
    if (r < 0)
        return r;
    loop_timer_cancel(&branch->start);
    interpreter_ready(interpreter);
    log_info("interpreter ready", "branch=%" PRIu64 " pid=%d", branch->number, (int)interpreter->pid);
    if (branch_is_recovering(branch))
        recovery_ready(branch, &notes, ready.memory);
    policy_on_quiet(branch, clock_now());
    branch->set->events->ready(branch);
    branches_changed(branch->set);
    return 0;
}

static int unexpected(const Message *message, Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s", message_name(message->kind));
}

static int on_message(Interpreter *interpreter, const Message *message, Problem *problem)
{
    Branch *branch = branch_from(interpreter);

    if ((interpreter->step == INTERPRETER_READY) == (message->kind == MSG_READY))
        return unexpected(message, problem);
    switch (message->kind) {
    case MSG_READY:
        return interpreter->closing ? 0 : on_ready(branch, message, problem);
    case MSG_CHECKPOINTED:
        return branch_on_checkpointed(branch, message, problem);
    default:
        return branch->set->events->message(branch, message, problem);
    }
}
