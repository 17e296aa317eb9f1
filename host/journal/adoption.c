#include "host/journal/adoption.h"

#include <stdio.h>
#include <string.h>

#include "host/session/checkpoint_files.h"
#include "host/call/record.h"
#include "proto/base/log.h"

static const SandboxOwner adoption_owner;

Sandbox *adoption_begin(Adopting *all, Session *root, const char *instance, bool ephemeral, double created,
                        SessionOptions *options)
{
    Adoption *adoption = calloc(1, sizeof(*adoption));
    Sandbox *sandbox = NULL;

    if (adoption)
        sandbox = sandbox_restore(all->sandboxes, root->user, root->name, instance, ephemeral, created,
                                  options, &adoption_owner, adoption);
    if (!sandbox) {
        free(adoption);
        return NULL;
    }
    adoption->all = all;
    list_init(&adoption->waiting);
    all->count++;
    session_move_in(root, sandbox);
    return sandbox;
}

Adoption *adoption_of(const Session *session)
{
    const Sandbox *sandbox = session->sandbox;

    return sandbox && sandbox->owner == &adoption_owner ? sandbox->userdata : NULL;
}

/* Ends an adoption: the requests that waited go on. */
static void settle(Adoption *adoption)
{
    Adopting *all = adoption->all;

    all->count--;
    all->events->settled(all->userdata, &adoption->waiting, adoption->lost);
    free(adoption);
    if (all->count == 0)
        all->events->all_settled(all->userdata);
}

/* ---- what its supervisor says ---- */

/* A call that the supervisor speaks of becomes the one that runs. NULL when out of memory. */
static Call *run_call(Sandbox *sandbox, Session *session, const char *run_id, uint64_t code_hash,
                      uint64_t number)
{
    const Adoption *adoption = sandbox->userdata;
    Call *call = call_adopt(adoption->all->calls, &call_turn_ops, session, run_id, code_hash);

    if (call)
        call_resume(call, number);
    return call;
}

/* Takes over a command; one of a branch that was closed meanwhile is the session's. False when out of
 * memory. */
static bool take_command(Sandbox *sandbox, const GuestRunning *command)
{
    const Adoption *adoption = sandbox->userdata;
    Session *session = session_find_branch(sandbox->root, command->branch);
    Call *call;

    if (!session)
        session = sandbox->root;
    if (call_find(adoption->all->calls, session->user, command->run_id))
        return true;
    call = call_adopt(adoption->all->calls, command->background ? &process_turn_ops : &command_turn_ops,
                      session, command->run_id, command->code_hash);
    if (!call)
        return false;
    call->started = true;
    call_resume(call, command->id);
    return true;
}

static bool take_commands(Sandbox *sandbox, const GuestHello *hello)
{
    for (size_t i = 0; i < hello->command_count; i++)
        if (!take_command(sandbox, &hello->commands[i]))
            return false;
    return true;
}

/* False when no honest supervisor says so. */
static bool take_running(Sandbox *sandbox, const GuestRunning *running)
{
    const Adoption *adoption = sandbox->userdata;
    Session *session = session_find_branch(sandbox->root, running->branch);

    if (running->id == 0 || (sandbox->running && sandbox->running->number == running->id))
        return true;
    if (!session || sandbox->running || call_find(adoption->all->calls, session->user, running->run_id))
        return false;
    return run_call(sandbox, session, running->run_id, running->code_hash, running->id);
}

static int inquire(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;

    adoption->inquiry = sandboxes_next_number(sandbox->all);
    return sandbox_send(sandbox, MSG_CHECKPOINTS, adoption->inquiry);
}

static void on_hello(Sandbox *sandbox, const GuestHello *hello)
{
    session_match(sandbox->root, hello);
    if (sandbox_is_ending(sandbox))
        return;
    if (!take_commands(sandbox, hello))
        sandbox_close(sandbox, "out of memory");
    else if (!take_running(sandbox, &hello->running))
        sandbox_close(sandbox, "its supervisor reports a call that cannot be running");
    else if (hello->running.id != 0) /* nothing older follows */
        sandbox_supervisor_ready(sandbox);
    else if (inquire(sandbox) < 0)
        sandbox_close(sandbox, "its supervisor cannot be reached");
}

/* The call that ended while no controller listened; NULL when there is none of that name to end. */
static Call *find_ended(Sandbox *sandbox, const MsgExecuted *executed, uint64_t number)
{
    const Adoption *adoption = sandbox->userdata;
    Session *session = session_find_branch(sandbox->root, executed->branch);
    char run_id[LIMIT_RUN_ID + 1];

    if (!session || sandbox->running || !run_id_valid(executed->run_id))
        return NULL;
    snprintf(run_id, sizeof(run_id), "%.*s", (int)executed->run_id.size, executed->run_id.data);
    if (call_find(adoption->all->calls, session->user, run_id))
        return NULL;
    return run_call(sandbox, session, run_id, executed->code_hash, number);
}

/* Handles the end of a call, which is found or made to run now for that. */
static int on_executed(Sandbox *sandbox, const Message *message, Problem *problem)
{
    MsgExecuted executed;
    Call *call;
    int r = record_decode(&executed, &message->body, problem);

    if (r < 0)
        return r;
    call = find_ended(sandbox, &executed, message->id);
    if (call)
        return call->to_guest.ops->message(&call->to_guest, message, problem);
    sandbox_send(sandbox, MSG_SETTLED, message->id); /* stored, or asked for by nobody any more */
    return 0;
}

/* With an error instead of checkpoints nothing is known of their files. */
static void on_answer(Sandbox *sandbox, const Message *message)
{
    const Adoption *adoption = sandbox->userdata;
    Problem problem = PROBLEM_NULL;
    MsgGuestCheckpoints answer;

    if (adoption->inquiry == 0 || adoption->inquiry != message->id)
        return;
    if (message->kind == MSG_REPLY &&
        body_decode(&answer, MsgGuestCheckpoints, &message->body, &problem) == 0)
        checkpoint_files_prune(sandbox, &answer.checkpoints, NULL);
    sandbox_supervisor_ready(sandbox);
}

static int on_message(Sandbox *sandbox, const Message *message, Problem *problem)
{
    if (message->kind == MSG_EXECUTED)
        return on_executed(sandbox, message, problem);
    if (message->kind == MSG_REPLY || message->kind == MSG_ERROR)
        on_answer(sandbox, message);
    return 0;
}

/* ---- the end of it ---- */

static void lose(Sandbox *sandbox, const char *reason)
{
    Adoption *adoption = sandbox->userdata;

    if (sandbox->root->hidden)
        return;
    log_warn("adopted session lost", "session=%s reason=%s", sandbox->name, reason);
    snprintf(adoption->lost, sizeof(adoption->lost), "%s", reason);
}

/* A container for one call that runs none has either had it or will not get it. */
static void on_ready(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;
    Session *root = sandbox->root;

    session_prepare(root);
    if (sandbox->ephemeral && !sandbox->running) {
        root->hidden = true;
        sandbox_close(sandbox, "its call has ended");
        return;
    }
    if (sandbox->running && sandbox->running->state == REQUEST_SENT)
        sandbox_watch(sandbox, TIMEOUT_MAXIMUM);
    log_info("session adopted", "session=%s calls=%llu", root->name,
             (unsigned long long)root->execution_count);
    sandbox->owner = &session_owner;
    sandbox->userdata = NULL;
    settle(adoption);
}

static void on_failed(Sandbox *sandbox, const Problem *problem)
{
    session_owner.failed(sandbox, problem);
}

static void on_rested(Sandbox *sandbox, Session *session)
{
    session_owner.rested(sandbox, session);
}

static void on_closing(Sandbox *sandbox, const char *reason)
{
    lose(sandbox, reason);
    session_owner.closing(sandbox, reason);
}

static void on_gone(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;

    session_owner.gone(sandbox);
    settle(adoption);
}

static const SandboxOwner adoption_owner = {
    .hello = on_hello,
    .message = on_message,
    .ready = on_ready,
    .failed = on_failed,
    .rested = on_rested,
    .closing = on_closing,
    .gone = on_gone,
};

void adoption_abandon(Sandbox *sandbox, const Problem *problem)
{
    Session *session;

    log_error("session not adopted", "session=%s reason=%s", sandbox->name, problem->text);
    list_foreach (session, &sandbox->root->branches, Session, in_branches) {
        session->hidden = false;
        session_note_end(session, problem->text);
    }
    lose(sandbox, problem->text);
    sandbox_abandon(sandbox);
}

void adoption_saved(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;

    sandbox->owner = &session_owner;
    sandbox->userdata = NULL;
    session_restore_saved(sandbox->root);
    log_info("session is saved", "session=%s", sandbox->name);
    settle(adoption);
}
