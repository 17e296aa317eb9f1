#include "host/egress/process.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "host/egress/serve.h"
#include "proto/base/log.h"

int egress_start(Loop *loop, LoopChild *child, const Account *account, const char *log_level, int *ret_socket)
{
    const Helper helper = {.name = EGRESS_PROGRAM, .account = account, .log_level = log_level};

    return helper_start(&helper, loop, child, NULL, ret_socket);
}

/* ---- in it ---- */

/* Files that resolving names and checking certificates reads. */
#define READABLE                                                                                             \
    "/etc", "/usr", "/lib", "/lib64", "/run/systemd/resolve", "/run/resolvconf", "/dev/null", "/dev/urandom"

/* Many connections of many sandboxes. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int egress_main(int argc, char **argv)
{
    Problem problem = PROBLEM_NULL;
    HelperOrders orders;
    int r = helper_begin(&orders, argc, argv, 0, EGRESS_PROGRAM);

    if (r < 0)
        return 2;
    prctl(PR_SET_NAME, EGRESS_PROGRAM);
    raise_limit();
    r = helper_drop(&orders, (Remnant){.readable = {READABLE}, .dials = true}, &problem);
    if (r == 0)
        r = egress_serve_controller(HELPER_FD, &problem);
    if (r < 0)
        log_error("egress process ended", "reason=%s", *problem.text ? problem.text : strerror(-r));
    return r < 0;
}
