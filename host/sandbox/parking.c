/* Sandboxes that are put away, and brought back: without a container, and so without memory. */
#include <stdlib.h>
#include <string.h>

#include "host/sandbox/internal.h"
#include "host/sandbox/sandbox.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

bool sandbox_shares_image(const Sandbox *sandbox)
{
    return sandbox->shares && sandbox->memory && !sandbox->memory->gone && !sandbox->all->engine->ops->single;
}

static void begin_parking(Sandbox *sandbox)
{
    sandbox_become(sandbox, SANDBOX_PARKING);
    sandbox->awaits = AWAITS_CONTAINER | AWAITS_SUPERVISOR;
    sandbox->retry = RETRY_ONCE;
    sandbox->unsettled = 0;
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    loop_timer_cancel(&sandbox->patience);
    egress_forget(&sandbox->egress);
    close_fd(&sandbox->data);
    sandbox_remove_container(sandbox);
}

void sandbox_saved(Sandbox *sandbox)
{
    if (sandbox_is_saving(sandbox))
        begin_parking(sandbox);
}

static void on_saving_due(LoopTimer *timer)
{
    sandbox_saved(container_of(timer, Sandbox, start_timer));
}

void sandbox_begin_saving(Sandbox *sandbox, double seconds)
{
    sandbox_become(sandbox, SANDBOX_SAVING);
    loop_timer_set(sandbox->all->loop, &sandbox->start_timer, clock_now() + clock_from_seconds(seconds),
                   on_saving_due);
}

/* Nothing of it is used, but watches may be left. */
bool sandbox_park(Sandbox *sandbox, bool saving)
{
    sandbox->parked = clock_unix();
    if (!sandbox->all->events->parking(sandbox))
        return false;
    if (saving) {
        session_files_sync(&sandbox->files);
        sandbox_begin_saving(sandbox, SAVE_SECONDS);
    } else {
        begin_parking(sandbox);
    }
    sandbox_fail_queries(sandbox, ERR_SESSION_CLOSED,
                         "the session was idle, and has been saved; watch again to wake it");
    return true;
}

void sandbox_call_back(Sandbox *sandbox)
{
    sandbox_become(sandbox, SANDBOX_RETURNING);
}

void sandbox_returned(Sandbox *sandbox)
{
    sandbox_become(sandbox, SANDBOX_READY);
    loop_timer_cancel(&sandbox->start_timer);
}

/* Writes down that nothing connects any more, before the socket goes. */
void sandbox_parked(Sandbox *sandbox)
{
    log_debug("session has no container", "session=%s", sandbox->name);
    sandbox_become(sandbox, SANDBOX_PARKED);
    sandbox->all->events->changed(sandbox);
    session_files_sync(&sandbox->files);
    sandbox->guest = guest_free(sandbox->guest);
    sandbox->owner->parked(sandbox);
    sandbox->all->events->parked(sandbox);
}

static void undo(Sandbox *sandbox)
{
    sandbox_become(sandbox, SANDBOX_PARKED);
    egress_forget(&sandbox->egress);
    sandbox->guest = guest_free(sandbox->guest);
}

/* Asks once more for files that could not be had. Where the first answer is still to come the container waits
 * for that. */
static int find_files(Sandbox *sandbox, Problem *problem)
{
    _cleanup_(freep) char *id = NULL;
    int r = 0;

    if (sandbox->files.state == FILES_AMISS) {
        id = strdup(sandbox->files.id);
        session_files_leave(&sandbox->files);
        r = id ? sandbox_restore_files(sandbox, id, true, problem)
               : problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    sandbox->making = r == 0;
    return r;
}

int sandbox_wake(Sandbox *sandbox, const SandboxOwner *owner, Problem *problem)
{
    const SandboxOwner *before = sandbox->owner;
    int r;

    sandbox_become(sandbox, SANDBOX_WAKING);
    sandbox->owner = owner;
    sandbox->loads = true;
    r = sandbox_make_link(sandbox, sandbox->files.id, problem);
    if (r == 0)
        sandbox->all->events->changed(sandbox);
    if (r == 0)
        r = sandbox->files.state == FILES_THERE ? sandbox_create_container(sandbox, problem)
                                                : find_files(sandbox, problem);
    if (r == 0) {
        sandbox_wait_for_start(sandbox);
        cpu_yield_wanted(&sandbox->cpu_yield);
        return 0;
    }
    undo(sandbox);
    sandbox->owner = before;
    sandbox->all->events->changed(sandbox);
    return r;
}

static void let_sleep(Sandbox *sandbox, const Problem *problem)
{
    log_warn("session not woken", "session=%s reason=%s", sandbox->name, problem->text);
    begin_parking(sandbox);
    sandbox->owner->failed(sandbox, problem);
}

void sandbox_give_up(Sandbox *sandbox, const Problem *problem)
{
    switch (sandbox->state) {
    case SANDBOX_WAKING:
        let_sleep(sandbox, problem);
        break;
    case SANDBOX_RETURNING:
    case SANDBOX_SAVING:
        begin_parking(sandbox);
        break;
    case SANDBOX_PARKING:
        break;
    default:
        sandbox_close(sandbox, problem->text);
    }
}

void sandbox_give_up_for(Sandbox *sandbox, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_ENGINE_ERROR, "%s", reason);
    sandbox_give_up(sandbox, &problem);
}

void sandbox_shut_down(Sandbox *sandbox)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    if (sandbox->state == SANDBOX_RETURNING)
        let_sleep(sandbox, &problem);
    else if (sandbox->state != SANDBOX_SAVING)
        sandbox_give_up(sandbox, &problem);
}

void sandbox_restore_parked(Sandbox *sandbox)
{
    Problem problem = PROBLEM_NULL;

    if (sandbox->guest && sandbox_restore_container(sandbox, &problem) == 0) {
        sandbox_begin_saving(sandbox, sandbox->all->options->start_timeout);
        return;
    }
    sandbox_become(sandbox, SANDBOX_PARKED);
    sandbox->guest = guest_free(sandbox->guest);
}
