/* The door of the process that holds the network, which the controller has started: what it is given, the
 * socket that listens and its key, the launcher has from its beginning: clients that connect meanwhile wait.
 */
#include "host/launcher/internal.h"
#include "host/net/authorized.h"
#include "proto/base/log.h"

int launcher_open_net(Launcher *launcher, Problem *problem)
{
    const LauncherConfig *config = launcher->config;

    if (!*config->options->listen)
        return 0;
    return net_door_open(&launcher->door, config->options->listen, config->paths->state_dir,
                         config->paths->authorized_keys, problem);
}

void launcher_read_keys(Launcher *launcher)
{
    Problem problem = PROBLEM_NULL;
    int keys;

    if (launcher->door.listening < 0)
        return;
    keys = authorized_load(launcher->config->paths->authorized_keys, &problem);
    if (keys < 0) {
        log_error("authorized keys not read", "reason=%s", problem.text);
        return;
    }
    close_fd(&launcher->door.keys);
    launcher->door.keys = keys;
    if (launcher->rpc.file.loop)
        rpc_send(&launcher->rpc, SEAM_KEYS, 0, SCHEMA(SeamNothing), &(SeamNothing){0}, &keys, 1);
}
