/* What an adopted supervisor says, until its session goes on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/adopt.h"
#include "host/adopt_wait.h"
#include "host/sandbox_files.h"
#include "host/sandbox_parts.h"
#include "proto/base/log.h"

/* A call that the supervisor speaks of becomes the one that runs. */
static int run_call(Sandbox *sandbox, Session *session, const char *run_id, uint64_t code_hash,
                    uint64_t number)
{
    Call *call = call_adopt(session, run_id, code_hash);

    if (!call)
        return -ENOMEM;
    call->turn.number = number;
    sandbox_set_running(sandbox, &call->turn);
    return 0;
}

/* False when no honest supervisor says so. */
static bool take_running(Sandbox *sandbox, const GuestRunning *running)
{
    Session *session = sandbox_find_branch(sandbox, running->branch);

    if (running->id == 0 || (sandbox->running && sandbox->running->number == running->id))
        return true;
    if (!session || sandbox->running || call_find(sandbox->controller, running->run_id))
        return false;
    return run_call(sandbox, session, running->run_id, running->code_hash, running->id) == 0;
}

static int inquire(Sandbox *sandbox)
{
    sandbox->adoption->inquiry = sandbox_next_number(sandbox->controller);
    return sandbox_send(sandbox, MSG_CHECKPOINTS, sandbox->adoption->inquiry);
}

static void go_on(Sandbox *sandbox)
{
    sandbox->guest_ready = true;
    sandbox_become_ready(sandbox);
}

void adopt_hello(Sandbox *sandbox, const GuestHello *hello)
{
    if (!take_running(sandbox, &hello->running))
        sandbox_close(sandbox, "its supervisor says that it runs what it cannot run");
    else if (hello->running.id != 0) /* it has nothing older to say */
        go_on(sandbox);
    else if (inquire(sandbox) < 0)
        sandbox_close(sandbox, "its supervisor cannot be reached");
}

void adopt_executed(Sandbox *sandbox, const MsgExecuted *executed, uint64_t number)
{
    Session *session = sandbox_find_branch(sandbox, executed->branch);
    char run_id[LIMIT_RUN_ID + 1];

    if (!session || sandbox->running || !run_id_valid(executed->run_id))
        return;
    snprintf(run_id, sizeof(run_id), "%.*s", (int)executed->run_id.size, executed->run_id.data);
    if (!call_find(sandbox->controller, run_id))
        run_call(sandbox, session, run_id, executed->code_hash, number);
}

bool adopt_answered(Sandbox *sandbox, uint64_t number, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    MsgGuestCheckpoints answer;

    if (!sandbox->adoption || sandbox->adoption->inquiry == 0 || sandbox->adoption->inquiry != number)
        return false;
    if (body && body_decode(&answer, MsgGuestCheckpoints, body, &problem) == 0)
        sandbox_prune_files(sandbox, &answer.checkpoints);
    go_on(sandbox);
    return true;
}

/* ---- the end of it ---------------------------------------------------------------------------------------
 */

void adopt_lose(Sandbox *sandbox, const char *reason)
{
    Adoption *adoption = sandbox->adoption;

    if (!adoption || !adoption->open)
        return;
    log_warn("adopted session lost", "session=%s reason=%s", sandbox->trunk->name, reason);
    snprintf(adoption->lost, sizeof(adoption->lost), "%s", reason);
}

Adoption *adopt_take(Sandbox *sandbox)
{
    return take(sandbox->adoption);
}

void adopt_forget(Controller *controller, Adoption *adoption)
{
    if (!adoption)
        return;
    controller->adopting--;
    adopt_release(controller, &adoption->waiting, adoption->lost);
    free(adoption);
    if (controller->adopting == 0)
        adopt_release(controller, &controller->adopt_waiting, "");
}

/* A container for one call that runs none has either had it or will not get it. */
void adopt_settle(Sandbox *sandbox)
{
    if (sandbox->ephemeral && !sandbox->running) {
        sandbox->adoption->open = false;
        sandbox_close(sandbox, "its call has ended");
        return;
    }
    if (sandbox->running && !sandbox->running->work)
        sandbox_watch(sandbox, TIMEOUT_MAXIMUM);
    log_info("session adopted", "session=%s calls=%llu", sandbox->trunk->name,
             (unsigned long long)sandbox->trunk->execution_count);
    adopt_forget(sandbox->controller, adopt_take(sandbox));
}
