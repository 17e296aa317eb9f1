#include "host/privilege/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/base/clock.h"

/* Packets that may wait for a peer that does not read. One more is too much. */
#define RPC_QUEUE_MAX 4096u

/* Packet: an encoded message with descriptors, on its way over a socket. */
typedef struct Packet {
    List link;
    Buf bytes;
    Descriptors descriptors; /* its own */
} Packet;

/* ---- packets ---- */

typedef union Control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * RPC_DESCRIPTORS_MAX)];
} Control;

int descriptors_take(Descriptors *descriptors, size_t i)
{
    return i < descriptors->n ? take_fd(&descriptors->fd[i]) : -1;
}

static void descriptors_close(Descriptors *descriptors)
{
    for (size_t i = 0; i < descriptors->n; i++)
        close_fd(&descriptors->fd[i]);
    descriptors->n = 0;
}

static int copy_descriptors(Descriptors *ret, const int *descriptors, size_t n)
{
    for (; ret->n < n; ret->n++) {
        ret->fd[ret->n] = fcntl(descriptors[ret->n], F_DUPFD_CLOEXEC, 0);
        if (ret->fd[ret->n] < 0)
            return -errno;
    }
    return 0;
}

static Packet *packet_free(Packet *packet)
{
    if (!packet)
        return NULL;
    descriptors_close(&packet->descriptors);
    buf_deinit(&packet->bytes);
    free(packet);
    return NULL;
}
DEFINE_CLEANUP(Packet *, packet_free);

/* NULL with a negative errno in *ret_error. */
static Packet *packet_new(unsigned kind, uint64_t id, const Schema *schema, const void *body,
                          const int *descriptors, size_t n, int *ret_error)
{
    _cleanup_(packet_freep) Packet *packet = calloc(1, sizeof(*packet));
    int r = packet ? 0 : -ENOMEM;

    if (r == 0) {
        packet->bytes.limit = RPC_PACKET_MAX;
        r = n <= RPC_DESCRIPTORS_MAX ? copy_descriptors(&packet->descriptors, descriptors, n) : -E2BIG;
    }
    if (r == 0)
        r = message_append(&packet->bytes, (MessageKind)kind, id, schema, body);
    *ret_error = r == -ENOBUFS ? -EMSGSIZE : r;
    return r < 0 ? NULL : take(packet);
}

static void attach(struct msghdr *message, Control *control, const Descriptors *descriptors)
{
    size_t size = sizeof(int) * descriptors->n;

    if (size == 0)
        return;
    memset(control, 0, sizeof(*control));
    message->msg_control = control;
    message->msg_controllen = CMSG_SPACE(size);
    control->header =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
    memcpy(CMSG_DATA(&control->header), descriptors->fd, size);
}

/* 0, -EAGAIN when the peer takes nothing for now, or another negative errno. Does not wait. */
static int packet_send(int socket, const Packet *packet)
{
    struct iovec data = {.iov_base = buf_head(&packet->bytes), .iov_len = packet->bytes.size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    Control control;
    ssize_t n;

    attach(&message, &control, &packet->descriptors);
    do
        n = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return 0;
    return errno == ECONNRESET ? -EPIPE : -errno;
}

static void collect(struct msghdr *message, Descriptors *ret)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        n = MIN(n, RPC_DESCRIPTORS_MAX - ret->n); /* there is room for no more in what was received */
        memcpy(ret->fd + ret->n, CMSG_DATA(part), n * sizeof(int));
        ret->n += n;
    }
}

/* Receives one into `bytes`, which has room for RPC_PACKET_MAX, and returns its size; 0 when the peer is
 * gone, or has sent nothing at all, which is the same. -EAGAIN; -EMSGSIZE for one that is larger or brings
 * more descriptors; or another negative errno. Does not wait. */
static ssize_t packet_receive(int socket, uint8_t *bytes, Descriptors *ret)
{
    struct iovec data = {.iov_base = bytes, .iov_len = RPC_PACKET_MAX};
    Control control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n;

    *ret = (Descriptors){0};
    do
        n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    collect(&message, ret);
    if (!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return n;
    descriptors_close(ret);
    return -EMSGSIZE;
}

/* Messages taken in one turn of the loop, so that a peer that floods does not have it for itself. */
#define BATCH 16

int rpc_pair(int ret[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) < 0 ? -errno : 0;
}

/* ---- losing ---- */

static void on_idle(LoopIdle *idle)
{
    Rpc *rpc = container_of(idle, Rpc, idle);

    rpc->events->lost(rpc, rpc->error);
}

/* Told once nothing else happens: whoever sends is not called back meanwhile. */
void rpc_lose(Rpc *rpc, int error)
{
    if (rpc->error)
        return;
    rpc->error = error;
    loop_file_change(&rpc->file, 0);
    loop_idle_add(rpc->file.loop, &rpc->idle, on_idle);
}

/* ---- sending ---- */

static void flush(Rpc *rpc)
{
    List *link;

    while (!rpc->error && (link = list_first(&rpc->queue))) {
        Packet *packet = list_entry(link, Packet, link);
        int r = packet_send(rpc->file.fd, packet);

        if (r == -EAGAIN)
            return;
        if (r < 0)
            rpc_lose(rpc, r);
        list_remove(link);
        rpc->queued--;
        packet_free(packet);
    }
    if (!rpc->error)
        loop_file_change(&rpc->file, EPOLLIN);
}

static int enqueue(Rpc *rpc, Packet *packet)
{
    if (rpc->queued >= RPC_QUEUE_MAX) {
        rpc_lose(rpc, -ENOBUFS);
        packet_free(packet);
        return -ENOBUFS;
    }
    list_append(&rpc->queue, &packet->link);
    rpc->queued++;
    return loop_file_change(&rpc->file, EPOLLIN | EPOLLOUT);
}

int rpc_send(Rpc *rpc, unsigned kind, uint64_t id, const Schema *schema, const void *body,
             const int *descriptors, size_t n)
{
    Packet *packet;
    int r;

    if (rpc->error)
        return rpc->error;
    packet = packet_new(kind, id, schema, body, descriptors, n, &r);
    if (!packet)
        return r;
    r = rpc->queued > 0 ? -EAGAIN : packet_send(rpc->file.fd, packet);
    if (r == -EAGAIN)
        return enqueue(rpc, packet);
    packet_free(packet);
    if (r < 0)
        rpc_lose(rpc, r);
    return r;
}

int rpc_send_over(int socket, unsigned kind, const Schema *schema, const void *body, const int *descriptors,
                  size_t n)
{
    int r;
    _cleanup_(packet_freep) Packet *packet = packet_new(kind, 0, schema, body, descriptors, n, &r);

    return packet ? packet_send(socket, packet) : r;
}

/* ---- receiving ---- */

static int dispatch(Rpc *rpc, const uint8_t *bytes, size_t size, Descriptors *descriptors)
{
    Problem problem = PROBLEM_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;

    if (message_decode(&message, bytes, size, &problem) < 0)
        return problem.code == ERR_INTERNAL ? -ENOMEM : -EBADMSG;
    return rpc->events->message(rpc, &message, descriptors);
}

/* False when there is nothing more for now. */
static bool receive_one(Rpc *rpc)
{
    static uint8_t bytes[RPC_PACKET_MAX]; /* of the thread that has the loop */
    Descriptors descriptors;
    ssize_t n = packet_receive(rpc->file.fd, bytes, &descriptors);
    int r = n == 0 ? -EPIPE : n < 0 ? (int)n : 0;

    if (r == -EAGAIN)
        return false;
    if (r == 0)
        r = dispatch(rpc, bytes, (size_t)n, &descriptors);
    descriptors_close(&descriptors);
    if (r < 0 && rpc->file.loop)
        rpc_lose(rpc, r);
    return r >= 0 && rpc->file.loop;
}

static void on_ready(LoopFile *file, uint32_t events)
{
    Rpc *rpc = container_of(file, Rpc, file);

    if (events & EPOLLOUT)
        flush(rpc);
    for (int i = 0; i < BATCH && !rpc->error && receive_one(rpc); i++)
        ;
}

/* ---- beginning and ending ---- */

int rpc_open(Rpc *rpc, Loop *loop, int fd, const RpcEvents *events)
{
    int r;

    *rpc = (Rpc){.events = events};
    list_init(&rpc->queue);
    r = loop_file_add(loop, &rpc->file, fd, EPOLLIN, on_ready);
    if (r < 0)
        close(fd);
    return r;
}

void rpc_close(Rpc *rpc)
{
    int fd = rpc->file.fd;
    List *link;

    if (!rpc->file.loop)
        return;
    while ((link = list_first(&rpc->queue))) {
        list_remove(link);
        packet_free(list_entry(link, Packet, link));
    }
    loop_idle_remove(&rpc->idle);
    loop_file_remove(&rpc->file);
    close(fd);
}

/* ---- questions: a message, and a socket for its answer ---- */

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

    if (fd < 0 || !is_answerable(fd, peer))
        return -EBADMSG;
    return rpc_send_over(fd, kind, schema, body, descriptors, n);
}
