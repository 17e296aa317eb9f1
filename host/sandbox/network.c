/* Network of a sandbox: its options say what it may reach, the egress process enforces it, and a port of the
 * loopback of its container leads there. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/sandbox/internal.h"

int sandbox_serve_network(Sandbox *sandbox, const char *name, const SessionOptions *options, Problem *problem)
{
    const Sandboxes *all = sandbox->all;
    const EgressRules rules = {name, &options->allow, &options->bindings, all->options->network_limit,
                               sandbox->owner->trusts_rules};
    char path[PATH_MAX];
    int r;

    snprintf(path, sizeof(path), "%s/" GUEST_EGRESS, sandbox->guest->directory);
    /* A sandbox that an earlier controller served has programs that ask: they are told that nothing is
     * allowed any more. */
    if (!session_options_reach(options) && !sandbox_is_proxied(sandbox) && access(path, F_OK) < 0)
        return 0;
    r = egress_serve(all->egress, &sandbox->egress, path, &rules);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the network rules cannot take effect: %s", strerror(-r));
    guest_admit(sandbox->guest, GUEST_EGRESS);
    return 0;
}

bool sandbox_is_proxied(const Sandbox *sandbox)
{
    return sandbox->egress.client != NULL;
}

int sandbox_set_network(Sandbox *sandbox, const MsgSetNetwork *given, Problem *problem)
{
    SessionOptions changed;
    int r = session_options_change_network(&changed, &sandbox->options, given, problem);

    if (r == 0)
        r = sandbox_serve_network(sandbox, sandbox->name, &changed, problem);
    session_options_take_network(&sandbox->options, &changed, r == 0);
    if (r < 0)
        return r;
    sandbox->all->events->changed(sandbox);
    /* A supervisor that is not connected is told with its welcome. */
    if (sandbox_is_proxied(sandbox) && sandbox->state == SANDBOX_READY)
        sandbox_send(sandbox, MSG_SET_NETWORK, sandboxes_next_number(sandbox->all));
    return 0;
}
