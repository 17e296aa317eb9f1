#include "host/privilege/rpc.h"

#include <errno.h>
#include <sys/socket.h>

#include "host/privilege/packet.h"

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
