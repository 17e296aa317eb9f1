#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "host/egress/internal.h"
#include "proto/base/clock.h"

/* Time for one address to answer, and addresses that are tried at most. */
#define ADDRESS_SECONDS 10
#define ADDRESSES_MOST  8

struct Dialling {
    List link; /* Served.waiting */
    WorkerJob job;
    Caller *caller; /* NULL: nobody waits for it */
    Egress *egress;
    Served *served;  /* of the connection */
    uint64_t number; /* of the served, which may go while a name is looked up */
    bool resolves;
    char host[HOST_SIZE];
    uint16_t port;
    int error; /* of getaddrinfo() */
    struct addrinfo *found, *next;
    size_t tried;
    IpAddress refused; /* the first that may not be connected to */
    bool has_refused;
    int failure; /* errno of the last that was tried */
    int fd;
    LoopFile file;
    LoopTimer limit;
};

/* The kernel answers for an address of this machine with that address. Nothing is sent by that. */
bool ip_is_own(const IpAddress *address)
{
    IpAddress there = *address, here;
    struct sockaddr_storage from;
    socklen_t size = sizeof(from);
    int fd _cleanup_(closep) = socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ip_set_port(&there, 9);
    if (fd < 0)
        return true;
    return connect(fd, &there.any, ip_size(&there)) == 0 &&
           getsockname(fd, (struct sockaddr *)&from, &size) == 0 &&
           ip_from(&here, (struct sockaddr *)&from) && ip_equal(&here, address);
}

static void stop(Dialling *dial)
{
    if (dial->file.loop)
        loop_file_remove(&dial->file);
    loop_timer_cancel(&dial->limit);
    close_fd(&dial->fd);
}

static void destroy(Dialling *dial)
{
    stop(dial);
    list_remove(&dial->link);
    if (dial->found)
        freeaddrinfo(dial->found);
    free(dial);
}

/* A thread that resolves cannot be stopped. */
void dial_free(Dialling *dial)
{
    dial->caller->dial = NULL;
    dial->caller = NULL;
    if (!dial->resolves)
        destroy(dial);
}

/* ---- connecting ---- */

static Caller *finish(Dialling *dial)
{
    Caller *caller = dial->caller;

    dial_free(dial);
    return caller;
}

static void give_up(Dialling *dial)
{
    Caller *caller = dial->caller;
    char text[IP_TEXT_SIZE], host[HOST_SIZE];
    IpAddress refused = dial->refused;
    bool has_refused = dial->has_refused && !dial->failure;
    int failure = dial->failure ? dial->failure : ENETUNREACH;

    memcpy(host, dial->host, sizeof(host));
    finish(dial);
    if (has_refused)
        caller_refuse(
            caller, 403,
            "%s leads to %s, which is not an address of the public internet; only a network rule that "
            "names that address allows it",
            host, ip_text(text, &refused));
    else
        caller_refuse(caller, 502, "%s:%u cannot be connected to: %s", host, caller->port, strerror(failure));
    caller_go_on(caller);
}

static void try_next(Dialling *dial);

static void hand_over(Dialling *dial)
{
    int fd = take_fd(&dial->fd);
    Caller *caller;

    loop_file_remove(&dial->file);
    caller = finish(dial);
    tunnel_begin(caller, fd);
    caller_go_on(caller);
}

static void on_connected(LoopFile *file, uint32_t events)
{
    Dialling *dial = container_of(file, Dialling, file);
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    dial->failure = error;
    if (error)
        try_next(dial);
    else
        hand_over(dial);
}

static void on_limit(LoopTimer *timer)
{
    Dialling *dial = container_of(timer, Dialling, limit);

    dial->failure = ETIMEDOUT;
    try_next(dial);
}

/* Connects to the very address that was checked: the name is not resolved again. */
static int try(Dialling *dial, const IpAddress *address)
{
    Loop *loop = dial->served->egress->loop;
    int r;

    dial->fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dial->fd < 0 || (connect(dial->fd, &address->any, ip_size(address)) < 0 && errno != EINPROGRESS))
        return -errno;
    r = loop_file_add(loop, &dial->file, dial->fd, EPOLLOUT, on_connected);
    if (r == 0)
        r = loop_timer_set(loop, &dial->limit, clock_now() + ADDRESS_SECONDS * NSEC_PER_SEC, on_limit);
    return r;
}

static bool may_connect(Dialling *dial, const IpAddress *address)
{
    const Network *network = &dial->served->network;
    const NetworkBinding *relay = network_relay(network);
    const bool own = ip_is_own(address);

    if (relay ? network_binding_allows_address(relay, address, own)
              : network_allows_address(network, address, dial->port, own))
        return true;
    if (!dial->has_refused)
        dial->refused = *address;
    dial->has_refused = true;
    return false;
}

static void try_next(Dialling *dial)
{
    stop(dial);
    while (dial->next && dial->tried < ADDRESSES_MOST) {
        const struct addrinfo *info = dial->next;
        IpAddress address;
        int r;

        dial->next = info->ai_next;
        if (!ip_from(&address, info->ai_addr) || !may_connect(dial, &address))
            continue;
        dial->tried++;
        r = try(dial, &address);
        if (r == 0)
            return;
        dial->failure = -r;
        stop(dial);
    }
    give_up(dial);
}

/* ---- finding the name ---- */

static int begin(Dialling *dial);

static void refuse_all(Caller *caller)
{
    caller_refuse(caller, 503, "names cannot be looked up now");
}

static bool may_resolve(const Served *served)
{
    return 2 * served->resolving < RESOLVERS - served->egress->resolving;
}

static void begin_waiting(Dialling *dial)
{
    Caller *caller;

    list_remove(&dial->link);
    if (begin(dial) == 0)
        return;
    caller = finish(dial);
    refuse_all(caller);
    caller_go_on(caller);
}

static void look(Egress *egress)
{
    Served *served;

    list_foreach (served, &egress->served, Served, link)
        while (!list_empty(&served->waiting) && may_resolve(served))
            begin_waiting(list_entry(list_first(&served->waiting), Dialling, link));
}

static void on_resolve(WorkerJob *job)
{
    Dialling *dial = container_of(job, Dialling, job);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[8];

    snprintf(port, sizeof(port), "%u", dial->port);
    dial->error = getaddrinfo(dial->host, port, &hints, &dial->found);
}

static void on_found(Dialling *dial)
{
    Caller *caller = dial->caller;
    char host[HOST_SIZE];
    int error = dial->error;

    dial->next = dial->found;
    if (error == 0) {
        try_next(dial);
        return;
    }
    memcpy(host, dial->host, sizeof(host));
    finish(dial);
    caller_refuse(caller, 502, "the name %s is not found: %s", host, gai_strerror(error));
    caller_go_on(caller);
}

static void on_resolved(WorkerJob *job)
{
    Dialling *dial = container_of(job, Dialling, job);
    Egress *egress = dial->egress;
    uint64_t number = dial->number;
    Served *served;

    dial->resolves = false;
    if (dial->caller)
        on_found(dial);
    else
        destroy(dial);
    egress->resolving--;
    served = served_find(egress, number);
    if (served)
        served->resolving--;
    look(egress);
}

static int begin(Dialling *dial)
{
    int r = worker_submit(dial->egress->resolvers, &dial->job, on_resolve, on_resolved);

    dial->resolves = r == 0;
    dial->served->resolving += r == 0;
    dial->egress->resolving += r == 0;
    return r;
}

void dial_begin(Caller *caller)
{
    Served *served = caller->served;
    Dialling *dial = calloc(1, sizeof(*dial));

    if (!dial) {
        caller_refuse(caller, 503, "out of memory");
        return;
    }
    dial->caller = caller;
    dial->egress = served->egress;
    dial->served = served;
    dial->number = served->number;
    dial->port = caller->port;
    dial->fd = -1;
    memcpy(dial->host, caller->host, sizeof(dial->host));
    list_init(&dial->link);
    caller->dial = dial;
    if (!may_resolve(served))
        list_append(&served->waiting, &dial->link);
    else if (begin(dial) < 0)
        refuse_all(finish(dial));
}
