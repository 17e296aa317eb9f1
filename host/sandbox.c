#include <stdio.h>
#include <string.h>

#include "host/adopt.h"
#include "host/journal_sandbox.h"
#include "host/kept.h"
#include "host/former.h"
#include "host/pool.h"
#include "host/sandbox_parts.h"
#include "host/spare.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

uint64_t sandbox_next_number(Controller *controller)
{
    if (controller->last_number == 0)
        controller->last_number = (uint64_t)(clock_unix() * 1e6);
    return ++controller->last_number;
}

/* Those that were before count for no call. */
void sandbox_note_kills(Sandbox *sandbox)
{
    uint64_t bytes;

    if (sandbox->controller->engine->ops->memory(sandbox->container, &bytes, &sandbox->oom_kills) < 0)
        sandbox->oom_kills = 0;
}

void sandbox_become_ready(Sandbox *sandbox)
{
    Session *session;

    if (sandbox->state != SANDBOX_STARTING || !sandbox->container_started || !sandbox->guest_ready)
        return;
    sandbox->state = SANDBOX_READY;
    loop_timer_cancel(&sandbox->start_timer);
    if (sandbox->spare) {
        pool_spare_ready(sandbox->spare);
        return;
    }
    if (sandbox->adoption) {
        courtesy_adopted(sandbox);
    } else {
        sandbox_note_kills(sandbox);
        journal_ready(sandbox);
    }
    log_info("session ready", "session=%s image=%s", sandbox->trunk->name, sandbox->options.image);
    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        session_become_ready(session);
    sandbox_next(sandbox);
    if (sandbox->adoption)
        adopt_settle(sandbox);
}

/* As much of them as the session may hold itself. */
static void bound_artifacts(Sandbox *sandbox)
{
    const SessionOptions *options = &sandbox->options;

    artifacts_set_room(sandbox->artifacts, options->disk, options->files);
    if (sandbox->work_artifacts)
        artifacts_set_room(sandbox->work_artifacts, options->disk, options->files);
}

int sandbox_watch_artifacts(Sandbox *sandbox, Problem *problem)
{
    const SessionDir *directory = &sandbox->directory;
    int r = artifacts_new(&sandbox->artifacts, directory->artifacts_root, "/session/artifacts",
                          directory->published_path);

    if (r == 0 && sandbox->ephemeral)
        r = artifacts_new(&sandbox->work_artifacts, directory->work_artifacts_root, "/work/artifacts",
                          directory->work_published_path);
    if (r == 0)
        bound_artifacts(sandbox);
    else
        problem_set(problem, ERR_INTERNAL, "cannot watch the artifacts of '%s': %s", sandbox->trunk->name,
                    strerror(-r));
    return r;
}

Sandbox *sandbox_new(Controller *controller, Session *trunk, bool ephemeral, SessionOptions *options)
{
    Sandbox *sandbox = calloc(1, sizeof(*sandbox));

    if (!sandbox)
        return NULL;
    sandbox->controller = controller;
    sandbox->ephemeral = ephemeral;
    sandbox->options = *options;
    *options = (SessionOptions){0};
    sandbox->trunk = trunk;
    sandbox->directory = SESSIONDIR_NULL;
    sandbox->journal = JOURNAL_NULL;
    list_append(&controller->sandboxes, &sandbox->link);
    courtesy_init(sandbox);
    list_init(&sandbox->turns);
    list_init(&sandbox->sessions);
    list_init(&sandbox->former);
    list_append(&sandbox->sessions, &trunk->in_sandbox);
    return sandbox;
}

void sandbox_free(Sandbox *sandbox)
{
    list_remove(&sandbox->link);
    courtesy_deinit(sandbox);
    spare_free(take(sandbox->spare));
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    artifacts_free(sandbox->artifacts);
    artifacts_free(sandbox->work_artifacts);
    guest_free(sandbox->guest);
    journal_leave(&sandbox->journal); /* it goes with the directory */
    sessiondir_remove(&sandbox->directory, sandbox->controller->worker);
    session_options_deinit(&sandbox->options);
    former_deinit(sandbox);
    free(sandbox);
}

/* Nothing of the sandbox is left when those who waited for the end of its sessions are told. */
void sandbox_end(Sandbox *sandbox)
{
    Controller *controller = sandbox->controller;
    Adoption *adoption = adopt_take(sandbox);
    Farewell farewell;
    Session *session;

    farewell_init(&farewell);
    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        session_free(session, &farewell);
    sandbox_free(sandbox);
    adopt_forget(controller, adoption);
    kept_wake(controller);
    farewell_tell(&farewell, controller);
}

Session *sandbox_find_branch(const Sandbox *sandbox, uint64_t branch)
{
    Session *session;

    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        if (session->branch == branch)
            return session;
    return NULL;
}

/* Nothing can be said of it any more while it is taken apart: it counts as closing, but its journal does not
 * say so. */
bool sandbox_leave(Sandbox *sandbox)
{
    if (sandbox->state == SANDBOX_CLOSING || (sandbox->state == SANDBOX_STARTING && !sandbox->adoption) ||
        sandbox->spare)
        return false;
    log_info("session left", "session=%s container=%s", sandbox->trunk->name, sandbox->container_name);
    journal_leave(&sandbox->journal);
    sandbox->state = SANDBOX_CLOSING;
    sandbox->left = true;
    sandbox_forget_turns(sandbox);
    sandbox->controller->engine->ops->leave(sandbox->container);
    guest_leave(take(sandbox->guest));
    sessiondir_deinit(&sandbox->directory);
    sandbox_end(sandbox);
    return true;
}

void sandbox_begin_closing(Sandbox *sandbox, const char *reason)
{
    Session *session;

    log_debug("session closing", "session=%s reason=%s", sandbox->trunk->name, reason);
    sandbox->state = SANDBOX_CLOSING;
    if (sandbox->spare)
        pool_spare_lost(sandbox->spare, reason);
    adopt_lose(sandbox, reason);
    journal_closing(sandbox);
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    sandbox_end_turns(sandbox, NULL, reason);
    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        session_set_closing(session, reason);
}

void sandbox_close(Sandbox *sandbox, const char *reason)
{
    if (sandbox->state == SANDBOX_CLOSING)
        return;
    sandbox_begin_closing(sandbox, reason);
    sandbox_remove_container(sandbox);
}
