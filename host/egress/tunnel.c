/* A tunnel: bytes both ways between a sandbox and what it has connected to, which nobody looks at. */
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "host/egress/internal.h"
#include "proto/base/clock.h"

/* Small enough to stay in the processor's cache from the one copy to the other. */
#define PIECE (64u << 10)
/* So that none has the loop for itself. */
#define PIECES 16

/* False: nothing more comes, ever. */
static bool relay(Caller *caller, int from, int to, Buf *buf, uint64_t *count)
{
    static uint8_t piece[PIECE];

    for (int i = 0; i < PIECES && buf->size < ROOM; i++) {
        ssize_t n = recv(from, piece, sizeof(piece), MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0 || pass(to, buf, piece, (size_t)n) < 0)
            return false;
        *count += (size_t)n;
        caller->used = clock_now();
        served_count(caller->served, (size_t)n);
    }
    return true;
}

bool tunnel_take(Caller *caller)
{
    return relay(caller, caller->file.fd, caller->peer.fd, &caller->in, &caller->sent);
}

static void on_peer_ready(LoopFile *file, uint32_t events)
{
    Caller *caller = container_of(file, Caller, peer);

    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP) &&
        !relay(caller, file->fd, caller->file.fd, &caller->out, &caller->received))
        caller->peer_ended = true;
    /* The kernel keeps reporting that both directions have ended: once is enough. */
    if (events & (EPOLLHUP | EPOLLERR) && caller->peer_ended)
        loop_file_remove(file);
    caller_go_on(caller);
}

void tunnel_begin(Caller *caller, int peer)
{
    static const char answer[] = "HTTP/1.1 200 Connection established\r\n\r\n";

    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    caller->keeps = false;
    if (loop_file_add(caller->served->egress->loop, &caller->peer, peer, EPOLLIN, on_peer_ready) < 0 ||
        buf_append(&caller->out, answer, sizeof(answer) - 1) < 0) {
        caller->peer.fd = peer;
        caller_refuse(caller, 503, "out of memory");
        return;
    }
    caller->state = TUNNELS;
}

static void finish(Caller *caller)
{
    caller_log(caller, "ended");
    tunnel_end(caller);
    caller_next(caller);
}

static void watch_peer(Caller *caller)
{
    bool reads = caller->out.size < ROOM && !caller->peer_ended;

    if (caller->peer.loop)
        loop_file_change(&caller->peer, (reads ? EPOLLIN : 0) | (caller->in.size > 0 ? EPOLLOUT : 0));
}

void tunnel_pump(Caller *caller)
{
    if (buf_send(&caller->in, caller->peer.fd) < 0)
        caller->peer_ended = true;
    if (buf_send(&caller->out, caller->file.fd) < 0)
        caller->in_ended = true;
    if (caller->in_ended && caller->in.size == 0 && !caller->peer_told) {
        shutdown(caller->peer.fd, SHUT_WR);
        caller->peer_told = true;
    }
    if (caller->peer_ended && caller->out.size == 0 && !caller->out_ended) {
        shutdown(caller->file.fd, SHUT_WR);
        caller->out_ended = true;
    }
    if (caller->peer_told && caller->out_ended)
        finish(caller);
    else
        watch_peer(caller);
}

void tunnel_end(Caller *caller)
{
    int fd = caller->peer.fd;

    if (caller->peer.loop)
        loop_file_remove(&caller->peer);
    if (fd >= 0)
        close(fd);
    caller->peer.fd = -1;
}
