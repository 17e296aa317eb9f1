/* limpet-net: the process that holds the network. limpetd starts it; see host/net/start.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "host/net/process/internal.h"
#include "host/net/protocol.h"
#include "proto/base/log.h"

/* Limit of memory: a peer that gets around the other bounds ends this process, which is started again. */
#define MEMORY_MAX (UINT64_C(1) << 30)

/* Descriptors of a connection, what comes before it is refused, and our own. */
#define FDS_OF_EACH 2
#define FDS_BESIDE  320

static void bound_memory(void)
{
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer maps more than there is */
    setrlimit(RLIMIT_DATA, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
#endif
}

/* Returns the number of connections, at most `most`, that there are descriptors for. */
static uint64_t bound(uint64_t most)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return most;
    files.rlim_cur = MIN(files.rlim_max, FDS_OF_EACH * most + FDS_BESIDE);
    setrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur > FDS_BESIDE ? MIN(most, (files.rlim_cur - FDS_BESIDE) / FDS_OF_EACH) : 1;
}

static int read_key(Certificate *ret, Problem *problem)
{
    int r = certificate_read(ret, NET_SECRET_FD);

    if (r == -ENODATA) {
        r = zmq_curve_keypair(ret->public_key, ret->secret_key) < 0 ? -errno
                                                                    : certificate_write(ret, NET_SECRET_FD);
    }
    close(NET_SECRET_FD);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "the key of this controller cannot be read: %s",
                               strerror(-r))
                 : 0;
}

static int serve(uint64_t most, Problem *problem)
{
    Certificate certificate;
    int r = read_key(&certificate, problem);

    if (r == 0)
        r = door_serve(NET_CONTROLLER_FD, NET_LISTENING_FD, &certificate, most, problem);
    explicit_bzero(&certificate, sizeof(certificate));
    return r;
}

int main(int argc, char **argv)
{
    Problem problem = PROBLEM_NULL;
    HelperOrders orders;

    if (helper_begin(&orders, argc, argv, 2, NET_PROGRAM) < 0 || !orders.argument) {
        fprintf(stderr, "limpet-net is started by limpetd; see its option listen\n");
        return 2;
    }
    bound_memory();
    if (helper_drop(&orders, (Confinement){0}, &problem) < 0 ||
        serve(bound(strtoull(orders.argument, NULL, 10)), &problem) < 0) {
        log_error("network process ended", "reason=%s", problem.text);
        return 1;
    }
    return 0;
}
