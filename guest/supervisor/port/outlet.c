#include "guest/supervisor/port/outlet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/passing.h"
#include "proto/limits.h"

#define BACKLOG 128
/* Connections taken in one turn of the loop. */
#define BATCH 8
/* The host has many that it has not looked at yet. */
#define PAUSE (20 * NSEC_PER_MSEC)

static const struct sockaddr_un host_address = {.sun_family = AF_UNIX, .sun_path = "egress"};

static int reach_host(Outlet *outlet)
{
    int fd _cleanup_(closep) = -1;

    if (outlet->host >= 0)
        return 0;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&host_address, sizeof(host_address)) < 0)
        return -errno;
    outlet->host = take_fd(&fd);
    return 0;
}

/* -EAGAIN when it takes none for now. */
static int hand_over(Outlet *outlet)
{
    int r = reach_host(outlet);
    ssize_t n = r == 0 ? send_passing(outlet->host, "", 1, outlet->held) : r;

    if (n == -ETOOMANYREFS || n == -ENOBUFS)
        return -EAGAIN;
    if (n < 0 && n != -EAGAIN)
        close_fd(&outlet->host);
    return (int)MIN(n, 0);
}

static void on_retry(LoopTimer *timer);

static void wait_for_host(Outlet *outlet)
{
    loop_file_change(&outlet->file, 0);
    loop_timer_set(outlet->loop, &outlet->retry, clock_now() + PAUSE, on_retry);
}

/* False: the host has to be waited for. Where there is nobody, whoever connected sees the connection end. */
static bool pass_on(Outlet *outlet)
{
    int r = hand_over(outlet);

    if (r == -EPIPE || r == -ECONNRESET) /* there is another process by now, or will be */
        r = hand_over(outlet);
    if (r == -EAGAIN) {
        wait_for_host(outlet);
        return false;
    }
    if (r < 0)
        log_info("connection not passed on", "error=%s", strerror(-r));
    close_fd(&outlet->held);
    return true;
}

static void on_retry(LoopTimer *timer)
{
    Outlet *outlet = container_of(timer, Outlet, retry);

    if (pass_on(outlet))
        loop_file_change(&outlet->file, EPOLLIN);
}

static void on_ready(LoopFile *file, uint32_t events)
{
    Outlet *outlet = container_of(file, Outlet, file);

    for (int i = 0; i < BATCH; i++) {
        outlet->held = accept4(file->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (outlet->held < 0 || !pass_on(outlet))
            return;
    }
}

static int listen_at(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd _cleanup_(closep) = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return take_fd(&fd);
}

static int note_port(Outlet *outlet, int fd)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return -errno;
    outlet->port = ntohs(address.sin_port);
    return 0;
}

int outlet_open(Outlet *outlet)
{
    int fd, r;

    if (outlet->port)
        return 0;
    fd = listen_at(NETWORK_FORWARDER);
    if (fd == -EADDRINUSE)
        fd = listen_at(0);
    if (fd < 0)
        return fd;
    r = loop_file_add(outlet->loop, &outlet->file, fd, EPOLLIN, on_ready);
    if (r == 0)
        r = note_port(outlet, fd);
    if (r < 0) {
        if (outlet->file.loop)
            loop_file_remove(&outlet->file);
        close(fd);
    }
    return r;
}

void outlet_init(Outlet *outlet, Loop *loop)
{
    *outlet = (Outlet){.loop = loop, .host = -1, .held = -1};
}

void outlet_deinit(Outlet *outlet)
{
    int fd = outlet->file.fd;

    loop_timer_cancel(&outlet->retry);
    close_fd(&outlet->held);
    close_fd(&outlet->host);
    if (!outlet->file.loop)
        return;
    loop_file_remove(&outlet->file);
    close(fd);
}
