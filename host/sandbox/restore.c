/* How a sandbox is taken over from an earlier controller. */
#include <stdio.h>

#include "host/sandbox/internal.h"

Sandbox *sandbox_restore(Sandboxes *all, uid_t user, const char *name, const char *instance, bool ephemeral,
                         double created, SessionOptions *options, const SandboxOwner *owner, void *userdata)
{
    Sandbox *sandbox = sandbox_new(all, ephemeral, options, owner, userdata);

    if (!sandbox)
        return NULL;
    sandbox->state = SANDBOX_ADOPTING;
    sandbox->user = user;
    sandbox->created = created;
    snprintf(sandbox->name, sizeof(sandbox->name), "%s", name);
    snprintf(sandbox->instance, sizeof(sandbox->instance), "%s", instance);
    sandbox_set_container_name(sandbox);
    return sandbox;
}

int sandbox_restore_places(Sandbox *sandbox, const char *id, const char *link, const uint8_t *secret,
                           Problem *problem)
{
    char published_id[PUBLISHED_ID_SIZE];
    int r, s = 0;

    sandbox_published_id(published_id, sandbox, sandbox->ephemeral ? sandbox->name + 1 : sandbox->name);
    r = session_files_adopt(&sandbox->files, sandbox->all->paths->state_dir, id, published_id,
                            sandbox->ephemeral, problem);
    if (*link)
        s = guest_adopt(&sandbox->guest, sandbox->all, id, link, secret, &sandbox_guest_events, sandbox,
                        problem);
    if (r == 0)
        r = sandbox_watch_artifacts(sandbox, problem);
    if (r == 0 && s == 0 && *link)
        r = sandbox_serve_network(sandbox, sandbox->name, &sandbox->options, problem);
    return r < 0 ? r : s;
}

int sandbox_restore_container(Sandbox *sandbox, Problem *problem)
{
    return sandbox_get_container(sandbox, sandbox->all->engine->ops->adopt, -1, problem);
}

int sandbox_restore_parked(Sandbox *sandbox, Problem *problem)
{
    int r;

    if (!sandbox->guest) {
        sandbox->state = SANDBOX_PARKED;
        return 0;
    }
    r = sandbox_restore_container(sandbox, problem);
    if (r < 0)
        return r;
    sandbox->state = SANDBOX_PARKING;
    loop_timer_cancel(&sandbox->start_timer);
    sandbox_remove_container(sandbox);
    return 0;
}

void sandbox_abandon(Sandbox *sandbox)
{
    sandbox_end(sandbox);
}
