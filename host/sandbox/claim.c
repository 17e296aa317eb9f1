/* Sandboxes that are nobody's: how they begin, and become somebody's. */
#include <errno.h>
#include <stdio.h>

#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

int sandbox_start_spare(Sandbox **ret, Sandboxes *all, bool ephemeral, SessionOptions *options,
                        const SandboxBirth *birth, const SandboxOwner *owner, void *userdata,
                        Problem *problem)
{
    Sandbox *sandbox = sandbox_new(all, ephemeral, options, owner, userdata);
    int r;

    if (!sandbox)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    sandbox->state = SANDBOX_WARMING;
    sandbox->birth = *birth;
    snprintf(sandbox->name, sizeof(sandbox->name), PRIVATE_MARK "%s", sandbox->instance);
    snprintf(sandbox->packages, sizeof(sandbox->packages), "%s", birth->packages ? birth->packages : "");
    r = sandbox_begin(sandbox, NULL, problem);
    if (r == 0)
        *ret = sandbox;
    return r;
}

static int send_claim(Sandbox *sandbox, const SessionOptions *options)
{
    const MsgClaim claim = {.env = value_encoded(&options->env),
                            .checkpoint = text_of(options->checkpoint),
                            .proxied = sandbox_is_proxied(sandbox)};

    return guest_say(sandbox->guest, MSG_CLAIM, sandboxes_next_number(sandbox->all), MsgClaim, &claim);
}

int sandbox_employ(Sandbox *sandbox)
{
    if (send_claim(sandbox, &sandbox->options) < 0)
        return -EHOSTUNREACH;
    sandbox->state = SANDBOX_READY;
    sandbox_note_kills(sandbox);
    return 0;
}

/* From here on it cannot fail. All of it is written down before anyone is told. */
static void become_claimed(Sandbox *sandbox, const SandboxHolder *holder, SessionOptions *options)
{
    snprintf(sandbox->name, sizeof(sandbox->name), "%s", holder->name);
    sandbox->restorer = holder->restorer;
    sandbox->created = clock_unix();
    sandbox->used = clock_now();
    session_options_deinit(&sandbox->options);
    sandbox->options = *options;
    *options = (SessionOptions){0};
    sandbox->state = SANDBOX_READY;
    sandbox->birth = (SandboxBirth){0};
    sandbox_note_kills(sandbox);
    sandbox->all->events->claimed(sandbox);
    log_info("session ready", "session=%s image=%s container=%s", sandbox->name, sandbox->options.image,
             sandbox->container_name);
}

static int attach_data(const Sandbox *sandbox, uid_t user, const SessionOptions *options, Problem *problem)
{
    int data _cleanup_(closep) = -1;
    int r = sandbox_open_data(sandbox, user, options, &data, problem);

    return r < 0 || data < 0 ? r : sandbox->all->engine->ops->attach_data(sandbox->container, data, problem);
}

int sandbox_claim(Sandbox *sandbox, const SandboxHolder *holder, SessionOptions *options, Problem *problem)
{
    int r = attach_data(sandbox, holder->user, options, problem);

    if (r < 0)
        return r;
    r = sandbox_serve_network(sandbox, holder->name, options, problem);
    if (r < 0)
        return r;
    r = send_claim(sandbox, options);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "its supervisor cannot be reached");
    sandbox->user = sandbox->files.user = holder->user;
    r = sandbox_claim_published(sandbox, holder->output_id ? holder->output_id : holder->name, problem);
    if (r == 0)
        become_claimed(sandbox, holder, options);
    return r;
}
