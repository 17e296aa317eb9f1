#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "host/egress/internal.h"
#include "proto/base/log.h"
#include "proto/base/passing.h"

/* Connections taken in one turn of the loop. */
#define BATCH 16

static int option_of(int fd, int name)
{
    int value;
    socklen_t size = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -1 : value;
}

/* Nothing else is served, whatever has been passed. */
static bool is_connection(int fd)
{
    int domain = option_of(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6) && option_of(fd, SO_TYPE) == SOCK_STREAM &&
           option_of(fd, SO_PROTOCOL) == IPPROTO_TCP && option_of(fd, SO_ACCEPTCONN) == 0;
}

/* A connection of the supervisor, each of whose packets has one of the sandbox. */
typedef struct Gate {
    List link;
    Served *served;
    LoopFile file;
} Gate;

static void gate_free(Gate *gate)
{
    Served *served = gate->served;
    int fd = gate->file.fd;

    loop_file_remove(&gate->file);
    close(fd);
    list_remove(&gate->link);
    free(gate);
    served->n_gates--;
}

/* -EAGAIN when none is there; -EPIPE when none comes any more; -EBADMSG for what is none. */
static int take_arrival(int gate)
{
    char byte;
    int fd = -1;
    ssize_t n = receive_passed(gate, &byte, sizeof(byte), &fd);

    if (fd >= 0 && is_connection(fd))
        return fd;
    close_fd(&fd);
    return n < 0 ? (int)n : n == 0 ? -EPIPE : -EBADMSG;
}

static void on_gate_ready(LoopFile *file, uint32_t events)
{
    Gate *gate = container_of(file, Gate, file);
    Served *served = gate->served;

    for (int i = 0; i < BATCH && served->n < CONNECTIONS_MOST; i++) {
        int fd = take_arrival(file->fd);

        if (fd == -EAGAIN)
            break;
        if (fd < 0) {
            if (fd != -EPIPE && fd != -ECONNRESET)
                log_warn("no connection", "session=%s error=%s", served->label, strerror(-fd));
            gate_free(gate);
            break;
        }
        caller_begin(served, fd);
    }
    served_look(served);
}

static int add_gate(Served *served, int fd)
{
    Gate *gate = calloc(1, sizeof(*gate));

    if (!gate || loop_file_add(served->egress->loop, &gate->file, fd, EPOLLIN, on_gate_ready) < 0) {
        free(gate);
        return -ENOMEM;
    }
    gate->served = served;
    list_append(&served->gates, &gate->link);
    served->n_gates++;
    return 0;
}

void served_look(Served *served)
{
    Gate *gate;

    list_foreach (gate, &served->gates, Gate, link)
        loop_file_change(&gate->file, served->n < CONNECTIONS_MOST ? EPOLLIN : 0);
    loop_file_change(&served->arrivals, served->n_gates < GATES_MOST ? EPOLLIN : 0);
}

static void on_arrival(LoopFile *file, uint32_t events)
{
    Served *served = container_of(file, Served, arrivals);
    int fd = accept4(file->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0 && add_gate(served, fd) < 0)
        close(fd);
    served_look(served);
}

int served_new(Egress *egress, uint64_t number, int arrivals, Served **ret)
{
    Served *served = calloc(1, sizeof(*served));
    int r = served ? 0 : -ENOMEM;

    if (r == 0)
        r = loop_file_add(egress->loop, &served->arrivals, arrivals, EPOLLIN, on_arrival);
    if (r < 0) {
        close(arrivals);
        free(served);
        return r;
    }
    served->egress = egress;
    served->number = number;
    list_init(&served->callers);
    list_init(&served->waiting);
    list_init(&served->gates);
    list_append(&egress->served, &served->link);
    *ret = served;
    return 0;
}

Served *served_free(Served *served)
{
    List *link;
    int arrivals = served->arrivals.fd;

    while ((link = list_first(&served->callers)))
        caller_free(list_entry(link, Caller, link));
    while ((link = list_first(&served->gates)))
        gate_free(list_entry(link, Gate, link));
    if (served->outward)
        outward_retire(served->outward);
    loop_file_remove(&served->arrivals);
    close(arrivals);
    network_deinit(&served->network);
    list_remove(&served->link);
    free(served);
    return NULL;
}

Served *served_find(const Egress *egress, uint64_t number)
{
    Served *served;

    list_foreach (served, (List *)&egress->served, Served, link)
        if (served->number == number)
            return served;
    return NULL;
}

/* Replaces the rules. Connections that are not allowed any more end at once, and no connection to a server
 * that was made by other rules is used again. */
void served_set_network(Served *served, Network *network)
{
    Caller *caller;

    network_deinit(&served->network);
    served->network = *network;
    *network = (Network){0};
    if (served->outward)
        outward_retire(take(served->outward));
    list_foreach (caller, &served->callers, Caller, link)
        if (!caller_is_allowed(caller)) {
            caller_log(caller, "not allowed any more");
            caller_free(caller);
        }
}

void served_count(Served *served, size_t bytes)
{
    served->bytes += bytes;
}

bool served_is_exhausted(const Served *served)
{
    return served->limit > 0 && served->bytes >= served->limit;
}
