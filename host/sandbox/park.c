/* Sandboxes that are put away, and brought back: without a container, and so without memory. */
#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Nothing of it is used, but watches may be left. */
static void begin_parking(Sandbox *sandbox)
{
    sandbox->state = SANDBOX_PARKING;
    sandbox->awaits = AWAITS_CONTAINER | AWAITS_SUPERVISOR;
    sandbox->retried = false;
    sandbox->unsettled = 0;
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    loop_timer_cancel(&sandbox->patience);
    egress_forget(&sandbox->egress);
    sandbox_remove_container(sandbox);
}

bool sandbox_park(Sandbox *sandbox)
{
    sandbox->parked = clock_unix();
    if (!sandbox->all->events->parking(sandbox))
        return false;
    begin_parking(sandbox);
    sandbox_fail_errands(sandbox, ERR_SESSION_CLOSED,
                         "the session was idle, and has been saved; watch again to wake it");
    return true;
}

/* Writes down that nothing connects any more, before the socket goes. */
void sandbox_parked(Sandbox *sandbox)
{
    log_debug("session has no container", "session=%s", sandbox->name);
    sandbox->state = SANDBOX_PARKED;
    sandbox->all->events->changed(sandbox);
    session_files_sync(&sandbox->files);
    sandbox->guest = guest_free(sandbox->guest);
    sandbox->owner->parked(sandbox);
    sandbox->all->events->parked(sandbox);
}

static void undo(Sandbox *sandbox)
{
    sandbox->state = SANDBOX_PARKED;
    egress_forget(&sandbox->egress);
    sandbox->guest = guest_free(sandbox->guest);
}

int sandbox_wake(Sandbox *sandbox, const SandboxOwner *owner, Problem *problem)
{
    const SandboxOwner *before = sandbox->owner;
    int r;

    sandbox->state = SANDBOX_WAKING;
    sandbox->owner = owner;
    r = sandbox->places.amiss ? sandbox_find_files(sandbox, problem) : 0;
    if (r == 0)
        r = sandbox_make_link(sandbox, problem);
    if (r == 0) {
        sandbox->all->events->changed(sandbox);
        r = sandbox_create_container(sandbox, problem);
    }
    if (r == 0) {
        courtesy_wanted(&sandbox->courtesy);
        return 0;
    }
    undo(sandbox);
    sandbox->owner = before;
    sandbox->all->events->changed(sandbox);
    return r;
}

void sandbox_give_up(Sandbox *sandbox, const Problem *problem)
{
    if (sandbox->state != SANDBOX_WAKING) {
        sandbox_close(sandbox, problem->text);
        return;
    }
    log_warn("session not woken", "session=%s reason=%s", sandbox->name, problem->text);
    begin_parking(sandbox);
    sandbox->owner->failed(sandbox, problem);
}

void sandbox_shut_down(Sandbox *sandbox)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    if (sandbox->state != SANDBOX_PARKING)
        sandbox_give_up(sandbox, &problem);
}
