/* Taking over a sandbox from an earlier controller. */
#include <stdio.h>
#include <string.h>

#include "host/sandbox/internal.h"

Sandbox *sandbox_restore(Sandboxes *all, uid_t user, const char *name, const char *instance, bool ephemeral,
                         double created, SessionOptions *options, const SandboxOwner *owner, void *userdata)
{
    Sandbox *sandbox = sandbox_new(all, ephemeral, options, owner, userdata);

    if (!sandbox)
        return NULL;
    sandbox->state = SANDBOX_ADOPTING;
    sandbox->user = sandbox->files.user = user;
    sandbox->created = created;
    snprintf(sandbox->name, sizeof(sandbox->name), "%s", name);
    snprintf(sandbox->instance, sizeof(sandbox->instance), "%s", instance);
    sandbox_set_container_name(sandbox);
    return sandbox;
}

int sandbox_restore_files(Sandbox *sandbox, const char *id, bool mounts, Problem *problem)
{
    char published_id[PUBLISHED_ID_SIZE];
    int r;

    sandbox_published_id(published_id, sandbox, sandbox->ephemeral ? sandbox->name + 1 : sandbox->name);
    r = session_files_adopt(&sandbox->files, sandbox->all->paths->state_dir, id, published_id,
                            sandbox->ephemeral, mounts, problem);
    if (r == 0)
        r = sandbox_watch_artifacts(sandbox, problem);
    sandbox->places.amiss = r < 0;
    return r;
}

int sandbox_restore_link(Sandbox *sandbox, const char *link, const uint8_t *secret, Problem *problem)
{
    int r = guest_adopt(&sandbox->guest, sandbox->all, sandbox->files.id, link, secret, &sandbox_guest_events,
                        sandbox, problem);

    return r < 0 ? r : sandbox_serve_network(sandbox, sandbox->name, &sandbox->options, problem);
}

int sandbox_find_files(Sandbox *sandbox, Problem *problem)
{
    _cleanup_(freep) char *id = strdup(sandbox->files.id);

    if (!id)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    session_files_leave(&sandbox->files);
    return sandbox_restore_files(sandbox, id, true, problem);
}

int sandbox_restore_container(Sandbox *sandbox, Problem *problem)
{
    return sandbox_get_container(sandbox, sandbox->all->engine->ops->adopt, -1, problem);
}

void sandbox_restore_parked(Sandbox *sandbox)
{
    Problem problem = PROBLEM_NULL;

    if (sandbox->guest && sandbox_restore_container(sandbox, &problem) == 0) {
        sandbox->state = SANDBOX_PARKING;
        loop_timer_cancel(&sandbox->start_timer);
        sandbox_remove_container(sandbox);
        return;
    }
    sandbox->state = SANDBOX_PARKED;
    sandbox->guest = guest_free(sandbox->guest);
}

void sandbox_abandon(Sandbox *sandbox)
{
    sandbox_end(sandbox);
}
