/* The process that holds the network, which the controller has started and talks to. What it is given, the
 * socket that listens and its key, the launcher has from its beginning: clients that connect meanwhile wait.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

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

void launcher_end_net(Launcher *launcher)
{
    if (launcher->net.file.loop)
        kill(launcher->net.pid, SIGKILL);
}

void launcher_close_net(Launcher *launcher)
{
    launcher_end_net(launcher);
    net_door_close(&launcher->door);
}

static void on_exit_of_net(LoopChild *child, int status)
{
}

static int start(Launcher *launcher, int *ret_socket)
{
    const LauncherConfig *config = launcher->config;
    int socket _cleanup_(closep) = -1;
    pid_t pid;
    int r;

    if (launcher->door.listening < 0)
        return -EINVAL;
    if (launcher->net.file.loop) { /* asked again, it is gone */
        launcher_end_net(launcher);
        return -EBUSY;
    }
    r = net_start(&launcher->door, &config->net, config->options->log_level,
                  config->options->listen_connections, &pid, &socket);
    if (r == 0 && (r = loop_child_add(launcher->loop, &launcher->net, pid, on_exit_of_net)) < 0)
        kill(pid, SIGKILL);
    if (r == 0)
        *ret_socket = take_fd(&socket);
    return r;
}

void launcher_start_net(Launcher *launcher, int socket)
{
    const SeamNothing done = {0};
    int leads _cleanup_(closep) = -1;
    int r = start(launcher, &leads);

    if (r < 0)
        launcher_answer(launcher->child.pid, socket, r, &PROBLEM_NULL);
    else
        rpc_answer(socket, launcher->child.pid, SEAM_DONE, SCHEMA(SeamNothing), &done, &leads, 1);
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
