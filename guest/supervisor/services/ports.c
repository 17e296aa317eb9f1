#include "guest/supervisor/services/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/fdio.h"
#include "proto/limits.h"

/* ---- sockets ---- */

int listen_at_path(const char *path, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd _cleanup_(closep) = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, 0666) < 0 ||
        listen(fd, backlog) < 0)
        return -errno;
    return take_fd(&fd);
}

/* ---- dials ---- */

/* A loopback answers at once, but a server whose queue is full does not. */
#define DIAL_LIMIT (10 * NSEC_PER_SEC)

typedef struct Dial {
    List link; /* Dials.all */
    Dials *all;
    uint64_t id; /* of the message */
    uint16_t port;
    int family;
    int fd;
    LoopFile file;
    LoopTimer limit;
} Dial;

static void stop(Dial *dial)
{
    if (dial->file.loop)
        loop_file_remove(&dial->file);
    close_fd(&dial->fd);
}

static void dial_free(Dial *dial)
{
    stop(dial);
    loop_timer_cancel(&dial->limit);
    list_remove(&dial->link);
    dial->all->n--;
    free(dial);
}

static void refuse(Dial *dial, int error)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_NOT_LISTENING, "nothing takes connections on port %u of the session: %s",
                dial->port, strerror(error));
    link_refuse_problem(dial->all->link, dial->id, &problem);
    dial_free(dial);
}

static void hand_over(Dial *dial)
{
    if (link_reply(dial->all->link, dial->id, MsgNothing, &(MsgNothing){0}) == 0)
        link_pass(dial->all->link, dial->fd);
    dial_free(dial);
}

static socklen_t set_address(const Dial *dial, struct sockaddr_storage *ret)
{
    struct sockaddr_in *four = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;

    *ret = (struct sockaddr_storage){.ss_family = (sa_family_t)dial->family};
    if (dial->family == AF_INET) {
        four->sin_port = htons(dial->port);
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof(*four);
    }
    six->sin6_port = htons(dial->port);
    six->sin6_addr = in6addr_loopback;
    return sizeof(*six);
}

static void on_ready(LoopFile *file, uint32_t events);

/* 0, and on_ready() tells what came of it; or a negative errno. */
static int try(Dial *dial, int family)
{
    struct sockaddr_storage address;
    socklen_t size;

    stop(dial);
    dial->family = family;
    size = set_address(dial, &address);
    dial->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dial->fd < 0 || (connect(dial->fd, (struct sockaddr *)&address, size) < 0 && errno != EINPROGRESS))
        return -errno;
    return loop_file_add(dial->all->loop, &dial->file, dial->fd, EPOLLOUT, on_ready);
}

/* A server may listen on one of the two addresses alone. */
static void on_failed(Dial *dial, int error)
{
    int r = dial->family == AF_INET ? try(dial, AF_INET6) : -error;

    if (r < 0)
        refuse(dial, error);
}

static void on_ready(LoopFile *file, uint32_t events)
{
    Dial *dial = container_of(file, Dial, file);
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error)
        on_failed(dial, error);
    else
        hand_over(dial);
}

static void on_limit(LoopTimer *timer)
{
    refuse(container_of(timer, Dial, limit), ETIMEDOUT);
}

int dials_begin(Dials *all, const Message *message, Problem *problem)
{
    MsgConnectOrder asked;
    Dial *dial;
    int r = body_decode(&asked, MsgConnectOrder, &message->body, problem);

    if (r < 0)
        return r;
    if (asked.port == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "`port` is 1 to 65535");
    if (all->n >= LIMIT_DIALS)
        return problem_set(problem, ERR_BUSY, "%u connections are being made in the session already",
                           LIMIT_DIALS);
    dial = calloc(1, sizeof(*dial));
    if (!dial || loop_timer_set(all->loop, &dial->limit, clock_now() + DIAL_LIMIT, on_limit) < 0) {
        free(dial);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    dial->all = all;
    dial->id = message->id;
    dial->port = (uint16_t)asked.port;
    dial->fd = -1;
    list_append(&all->all, &dial->link);
    all->n++;
    r = try(dial, AF_INET);
    if (r < 0)
        on_failed(dial, -r);
    return 0;
}

void dials_on_controller_lost(Dials *all)
{
    Dial *dial;

    list_foreach (dial, &all->all, Dial, link)
        dial_free(dial);
}

void dials_init(Dials *all, Loop *loop, Link *link)
{
    *all = (Dials){.loop = loop, .link = link};
    list_init(&all->all);
}

void dials_deinit(Dials *all)
{
    dials_on_controller_lost(all);
}

/* ---- the outlet ---- */

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
static int send_to_host(Outlet *outlet)
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
    int r = send_to_host(outlet);

    if (r == -EPIPE || r == -ECONNRESET) /* there is another process by now, or will be */
        r = send_to_host(outlet);
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

static void on_connection(LoopFile *file, uint32_t events)
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
    r = loop_file_add(outlet->loop, &outlet->file, fd, EPOLLIN, on_connection);
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
