#include "host/sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

bool instance_make(char ret[static INSTANCE_SIZE])
{
    uint64_t random;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return false;
    snprintf(ret, INSTANCE_SIZE, "%016llx", (unsigned long long)random);
    return true;
}

/* ---- courtesy ---- */

static int set_idle(Courtesy *courtesy, bool idle)
{
    Sandbox *sandbox = container_of(courtesy, Sandbox, courtesy);
    int r = sandbox->all->engine->ops->set_idle(sandbox->container, idle);

    if (r == 0)
        log_debug(idle ? "session steps aside" : "session is back", "session=%s", sandbox->name);
    return r;
}

static int processor_time(const Courtesy *courtesy, uint64_t *ret_nsec)
{
    const Sandbox *sandbox = container_of(courtesy, const Sandbox, courtesy);

    return sandbox->all->engine->ops->time(sandbox->container, ret_nsec);
}

static const CourtesyOps courtesy_ops = {.set_idle = set_idle, .time = processor_time};

Sandbox *sandbox_new(Sandboxes *all, bool ephemeral, SessionOptions *options, const SandboxOwner *owner,
                     void *userdata)
{
    Sandbox *sandbox = calloc(1, sizeof(*sandbox));

    if (!sandbox || !instance_make(sandbox->instance)) {
        free(sandbox);
        return NULL;
    }
    sandbox->all = all;
    sandbox->user = all->paths->user;
    sandbox->ephemeral = ephemeral;
    sandbox->options = *options;
    *options = (SessionOptions){0};
    sandbox->owner = owner;
    sandbox->userdata = userdata;
    sandbox->awaits = AWAITS_CONTAINER | AWAITS_SUPERVISOR;
    sandbox->created = clock_unix();
    sandbox->used = clock_now();
    session_files_init(&sandbox->files, all->keeper);
    sandbox->files.user = sandbox->user;
    list_append(&all->list, &sandbox->link);
    courtesy_init(&sandbox->courtesy, &all->courtesies, &courtesy_ops);
    list_init(&sandbox->turns);
    errands_init(&sandbox->errands);
    list_init(&sandbox->beside);
    return sandbox;
}

void sandbox_free(Sandbox *sandbox)
{
    list_remove(&sandbox->link);
    courtesy_deinit(&sandbox->courtesy);
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    loop_timer_cancel(&sandbox->patience);
    egress_forget(&sandbox->egress);
    guest_free(sandbox->guest);
    sandbox->all->events->over(sandbox);
    session_files_remove(&sandbox->files);
    session_options_deinit(&sandbox->options);
    free(sandbox);
}

/* ---- memory ---- */

int sandbox_memory(const Sandbox *sandbox, uint64_t *ret_bytes)
{
    if (sandbox->awaits & AWAITS_CONTAINER)
        return -ENOENT;
    return sandbox->all->engine->ops->memory(sandbox->container, ret_bytes, NULL);
}

void sandbox_note_kills(Sandbox *sandbox)
{
    if (sandbox->all->engine->ops->memory(sandbox->container, NULL, &sandbox->oom_kills) < 0)
        sandbox->oom_kills = 0;
}

bool sandbox_has_killed(Sandbox *sandbox)
{
    uint64_t kills, before = sandbox->oom_kills;

    if (sandbox->all->engine->ops->memory(sandbox->container, NULL, &kills) < 0)
        return false;
    sandbox->oom_kills = kills;
    return kills > before;
}

/* ---- its life ---- */

/* Sets the state of a sandbox that is up. An adopted one keeps its count of the kernel's kills: its last call
 * is judged by it. */
static void become(Sandbox *sandbox)
{
    switch (sandbox->state) {
    case SANDBOX_WARMING:
        sandbox->state = SANDBOX_SPARE;
        break;
    case SANDBOX_ADOPTING:
        sandbox->state = SANDBOX_READY;
        courtesy_adopted(&sandbox->courtesy);
        break;
    default:
        sandbox->state = SANDBOX_READY;
        sandbox_note_kills(sandbox);
    }
}

void sandbox_become_ready(Sandbox *sandbox)
{
    if (sandbox->state >= SANDBOX_SPARE || sandbox->awaits)
        return;
    loop_timer_cancel(&sandbox->start_timer);
    become(sandbox);
    sandbox->used = clock_now();
    sandbox->owner->ready(sandbox);
    sandbox_next(sandbox);
    errands_resume(sandbox);
    sandbox_start_beside(sandbox);
}

void sandbox_supervisor_ready(Sandbox *sandbox)
{
    sandbox->awaits &= ~(unsigned)AWAITS_SUPERVISOR;
    sandbox_become_ready(sandbox);
}

/* The owner frees it. */
void sandbox_end(Sandbox *sandbox)
{
    Sandboxes *all = sandbox->all;

    sandbox->owner->gone(sandbox);
    all->events->gone(all->userdata);
}

void sandbox_fail_errands(Sandbox *sandbox, ErrorCode code, const char *text)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s", text);
    errands_fail_all(sandbox, &problem);
}

/* Nothing can be said of it any more while it is taken apart. */
bool sandbox_leave(Sandbox *sandbox)
{
    bool parked = sandbox->state == SANDBOX_PARKED;

    if (sandbox->state != SANDBOX_READY && sandbox->state != SANDBOX_ADOPTING && !parked)
        return false;
    log_info("session left", "session=%s container=%s", sandbox->name, sandbox->container_name);
    sandbox->state = SANDBOX_LEFT;
    sandbox->all->events->over(sandbox);
    sandbox_leave_turns(sandbox);
    sandbox_fail_errands(sandbox, ERR_UNAVAILABLE, "the controller is shutting down");
    if (!parked) {
        sandbox->all->engine->ops->leave(sandbox->container);
        guest_leave(take(sandbox->guest));
    }
    session_files_leave(&sandbox->files);
    sandbox_end(sandbox);
    return true;
}

static void begin_closing(Sandbox *sandbox, const char *reason)
{
    char text[256];

    log_debug("session closing", "session=%s reason=%s", sandbox->name, reason);
    sandbox->state = SANDBOX_CLOSING;
    sandbox->all->events->closing(sandbox);
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    loop_timer_cancel(&sandbox->patience);
    egress_forget(&sandbox->egress);
    sandbox_end_all_turns(sandbox, reason);
    snprintf(text, sizeof(text), "the session was closed: %s", reason);
    sandbox_fail_errands(sandbox, ERR_SESSION_CLOSED, text);
    sandbox->owner->closing(sandbox, reason);
}

void sandbox_close(Sandbox *sandbox, const char *reason)
{
    if (sandbox_is_ending(sandbox))
        return;
    begin_closing(sandbox, reason);
    sandbox_remove_container(sandbox);
}
