/* Questions: a message, and a socket for its answer. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "host/privilege/rpc.h"
#include "proto/base/clock.h"

static int wait_until(int fd, short events, uint64_t end)
{
    struct pollfd ready = {.fd = fd, .events = events};

    for (;;) {
        uint64_t now = clock_now();
        uint64_t left = now < end ? (end - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC : 0;
        int n = poll(&ready, 1, (int)MIN(left, (uint64_t)INT32_MAX));

        if (n > 0)
            return 0;
        if (n == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

static int send_until(int fd, const Packet *packet, uint64_t end)
{
    int r;

    while ((r = packet_send(fd, packet)) == -EAGAIN && (r = wait_until(fd, POLLOUT, end)) == 0)
        ;
    return r;
}

static int receive_until(int fd, uint64_t end, RpcAnswer *ret)
{
    Problem problem = PROBLEM_NULL;
    int r = wait_until(fd, POLLIN, end);
    ssize_t n;

    if (r < 0)
        return r;
    ret->bytes = malloc(RPC_PACKET_MAX);
    if (!ret->bytes)
        return -ENOMEM;
    n = packet_receive(fd, ret->bytes, &ret->descriptors);
    if (n <= 0)
        return n < 0 ? (int)n : -EPIPE;
    return message_decode(&ret->message, ret->bytes, (size_t)n, &problem) < 0 ? -EBADMSG : 0;
}

void rpc_answer_deinit(RpcAnswer *answer)
{
    message_deinit(&answer->message);
    descriptors_close(&answer->descriptors);
    free(answer->bytes);
    *answer = RPC_ANSWER_NULL;
}

int rpc_ask(const Rpc *rpc, unsigned kind, const Schema *schema, const void *body, const int *descriptors,
            size_t n, double seconds, RpcAnswer *ret)
{
    uint64_t end = clock_now() + clock_from_seconds(seconds);
    int all[RPC_DESCRIPTORS_MAX], ends[2], r;
    _cleanup_(packet_freep) Packet *packet = NULL;

    if (n >= RPC_DESCRIPTORS_MAX)
        return -E2BIG;
    r = rpc_pair(ends);
    if (r < 0)
        return r;
    if (n > 0)
        memcpy(all, descriptors, n * sizeof(int));
    all[n] = ends[1];
    packet = packet_new(kind, 0, schema, body, all, n + 1, &r);
    if (packet)
        r = send_until(rpc->file.fd, packet, end);
    packet_free(take(packet)); /* with its copy of the other end, so that the peer's end is noticed */
    close(ends[1]);
    if (r == 0)
        r = receive_until(ends[0], end, ret);
    close(ends[0]);
    return r;
}

/* Made by the peer as one of a pair of this kind. What is connected to another program, in whose eyes an
 * answer would be ours, is not. */
static bool is_answerable(int fd, pid_t peer)
{
    struct ucred maker;
    socklen_t size = sizeof(maker);
    int domain, type;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &size) < 0 || maker.pid != peer)
        return false;
    size = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

int rpc_answer(int socket, pid_t peer, unsigned kind, const Schema *schema, const void *body,
               const int *descriptors, size_t n)
{
    _cleanup_(closep) int fd = socket;
    _cleanup_(packet_freep) Packet *packet = NULL;
    int r = 0;

    if (fd < 0 || !is_answerable(fd, peer))
        return -EBADMSG;
    packet = packet_new(kind, 0, schema, body, descriptors, n, &r);
    return packet ? packet_send(fd, packet) : r;
}
