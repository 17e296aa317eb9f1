/* The egress process, which the controller says whom to serve, and of which the launcher knows no more than
 * that it runs. One at a time: it ends with the socket that the controller has, or is ended for the next. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "host/egress/process.h"
#include "host/launcher/internal.h"

void launcher_end_egress(Launcher *launcher)
{
    if (launcher->egress.file.loop)
        kill(launcher->egress.pid, SIGKILL);
}

static void on_exit_of_egress(LoopChild *child, int status)
{
}

static int start(Launcher *launcher, int *ret_socket)
{
    int socket _cleanup_(closep) = -1;
    pid_t pid;
    int r;

    if (launcher->egress.file.loop) { /* asked again, it is gone */
        launcher_end_egress(launcher);
        return -EBUSY;
    }
    r = egress_start(&launcher->config->egress, launcher->config->options->log_level, &pid, &socket);
    if (r == 0 && (r = loop_child_add(launcher->loop, &launcher->egress, pid, on_exit_of_egress)) < 0)
        kill(pid, SIGKILL);
    if (r == 0)
        *ret_socket = take_fd(&socket);
    return r;
}

void launcher_start_egress(Launcher *launcher, int socket)
{
    SeamNothing done = {0};
    int leads _cleanup_(closep) = -1;
    int r = start(launcher, &leads);

    if (r < 0)
        launcher_answer(launcher->child.pid, socket, r, &PROBLEM_NULL);
    else
        rpc_answer(socket, launcher->child.pid, SEAM_DONE, SCHEMA(SeamNothing), &done, &leads, 1);
}
