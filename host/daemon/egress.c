#include "host/daemon/egress.h"

#include <errno.h>

#include "host/egress/process.h"

/* Root with an engine that needs none has no launcher either. */
int egress_child_start(void *userdata, int *ret_socket)
{
    EgressChild *egress = userdata;
    const Options *options = egress->options;
    Problem problem = PROBLEM_NULL;
    bool root = geteuid() == 0;
    Account account;

    if (root && account_find(options->egress_user, &account, &problem) < 0)
        return -ENOENT;
    return egress_start(egress->loop, &egress->child, root ? &account : NULL, options->log_level, ret_socket);
}
