#include "host/daemon/egress.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "host/egress/process.h"

static void on_exit_of_egress(LoopChild *child, int status)
{
}

/* Root with an engine that needs none has no launcher either. */
static int start(const Options *options, pid_t *ret_pid, int *ret_socket)
{
    Problem problem = PROBLEM_NULL;
    Account account;

    if (geteuid() != 0)
        return egress_start(NULL, options->log_level, ret_pid, ret_socket);
    if (account_find(options->egress_user, &account, &problem) < 0)
        return -ENOENT;
    return egress_start(&account, options->log_level, ret_pid, ret_socket);
}

int egress_child_start(void *userdata, int *ret_socket)
{
    EgressChild *child = userdata;
    int socket _cleanup_(closep) = -1;
    pid_t pid;
    int r;

    if (child->child.file.loop) { /* asked again, it is gone */
        kill(child->child.pid, SIGKILL);
        return -EBUSY;
    }
    r = start(child->options, &pid, &socket);
    if (r == 0 && (r = loop_child_add(child->loop, &child->child, pid, on_exit_of_egress)) < 0)
        kill(pid, SIGKILL);
    if (r == 0)
        *ret_socket = take_fd(&socket);
    return r;
}

void egress_child_end(EgressChild *child)
{
    if (!child->child.file.loop)
        return;
    kill(child->child.pid, SIGKILL);
    waitpid(child->child.pid, NULL, 0);
    loop_child_remove(&child->child);
}
