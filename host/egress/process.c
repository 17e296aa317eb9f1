#include "host/egress/process.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "host/egress/internal.h"
#include "host/egress/protocol.h"
#include "proto/base/log.h"
#include "proto/base/fdio.h"
#include "proto/base/program.h"

#define SCHEMA_FILE "host/egress/protocol.def"
#include "proto/schema/as_tables.h"

/* ---- a sandbox that is served ---- */

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
    if (served->arrivals.loop)
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

    if (r == 0 && arrivals >= 0)
        r = loop_file_add(egress->loop, &served->arrivals, arrivals, EPOLLIN, on_arrival);
    if (r < 0) {
        close_fd(&arrivals);
        free(served);
        return r;
    }
    served->arrivals.fd = arrivals;
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
    if (served->arrivals.loop)
        loop_file_remove(&served->arrivals);
    close_fd(&arrivals);
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
static void served_set_network(Served *served, Network *network)
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

void served_set(Served *served, Text label, uint64_t limit, Network *network)
{
    snprintf(served->label, sizeof(served->label), "%.*s", (int)label.size, label.data);
    served->limit = limit;
    served_set_network(served, network);
}

void served_count(Served *served, size_t bytes)
{
    served->bytes += bytes;
}

bool served_is_exhausted(const Served *served)
{
    return served->limit > 0 && served->bytes >= served->limit;
}

/* ---- the controller ---- */

static int begin_sandbox(Egress *egress, uint64_t number, Descriptors *descriptors, Served **ret)
{
    int arrivals = descriptors_take(descriptors, 0);

    return arrivals < 0 ? -EBADMSG : served_new(egress, number, arrivals, ret);
}

static int on_serve(Egress *egress, const msgpack_object_map *body, Descriptors *descriptors)
{
    Network network _cleanup_(network_deinit) = {0};
    Problem problem = PROBLEM_NULL;
    EgressServe said;
    Served *served;
    int r = 0;

    if (body_decode(&said, EgressServe, body, &problem) < 0 ||
        network_read(&network, &said.allow, &said.bindings, &problem) < 0)
        return -EBADMSG;
    served = served_find(egress, said.sandbox);
    if (!served)
        r = begin_sandbox(egress, said.sandbox, descriptors, &served);
    if (r < 0)
        return r;
    network.anywhere = said.anywhere;
    served_set(served, said.label, said.limit, &network);
    return 0;
}

static int on_forget(Egress *egress, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    EgressForget said;
    Served *served;

    if (body_decode(&said, EgressForget, body, &problem) < 0)
        return -EBADMSG;
    served = served_find(egress, said.sandbox);
    if (served)
        served_free(served);
    return 0;
}

static int on_log(Descriptors *descriptors)
{
    int log _cleanup_(closep) = descriptors_take(descriptors, 0);

    return log < 0 || dup2(log, STDERR_FILENO) < 0 ? -EBADMSG : 0;
}

static int on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    Egress *egress = container_of(ipc, Egress, ipc);

    switch ((EgressKind)message->kind) {
    case EGRESS_SERVE:
        return on_serve(egress, &message->body, descriptors);
    case EGRESS_FORGET:
        return on_forget(egress, &message->body);
    case EGRESS_LOG:
        return on_log(descriptors);
    default:
        return -EBADMSG;
    }
}

static void on_lost(Ipc *ipc, int error)
{
    Egress *egress = container_of(ipc, Egress, ipc);

    egress->error = error == -EPIPE ? 0 : error;
    loop_stop(egress->loop, 0);
}

static const IpcEvents events = {.message = on_message, .lost = on_lost};

static void end(Egress *egress)
{
    List *link;

    while ((link = list_first(&egress->served)))
        served_free(list_entry(link, Served, link));
    ipc_close(&egress->ipc);
}

/* Connections of all sandboxes. A connection and what it leads to take a descriptor each, and libcurl keeps
 * some when they have been used. */
#define CONNECTIONS_OF_ALL 4096u
#define FDS_OF_EACH        3u
#define FDS_BESIDE         320u

/* Returns the number of connections that there are descriptors for. */
static size_t count_connections(void)
{
    struct rlimit files;

    raise_descriptor_limit();
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return CONNECTIONS_OF_ALL;
    return files.rlim_cur > FDS_BESIDE + FDS_OF_EACH
               ? MIN(CONNECTIONS_OF_ALL, (files.rlim_cur - FDS_BESIDE) / FDS_OF_EACH)
               : 1;
}

int egress_begin(Egress *egress)
{
    int r = loop_new(&egress->loop);

    egress->most = count_connections();
    list_init(&egress->served);
    return r < 0 ? r : worker_new(&egress->resolvers, egress->loop, RESOLVERS, 0);
}

/* Serves the controller until it has gone. Look-ups that are still under way end with the process. */
static int egress_serve_controller(int socket, Problem *problem)
{
    static Egress egress;
    int r = egress_begin(&egress);

    if (r == 0)
        r = ipc_open(&egress.ipc, egress.loop, socket, &ipc_messages, &events);
    if (r == 0)
        r = loop_run(egress.loop);
    if (r == 0)
        r = egress.error;
    end(&egress);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "the egress process ends: %s", strerror(-r)) : 0;
}

/* ---- its beginning ---- */

int egress_start(Loop *loop, LoopChild *child, const Account *account, const char *log_level, int socket)
{
    const Helper helper = {.name = EGRESS_PROGRAM, .account = account, .log_level = log_level};

    return helper_start(&helper, loop, child, NULL, socket);
}

/* ---- in it ---- */

int egress_main(int argc, char **argv)
{
    Problem problem = PROBLEM_NULL;
    HelperOrders orders;
    int r = helper_begin(&orders, argc, argv, 0, EGRESS_PROGRAM);

    if (r < 0)
        return 2;
    prctl(PR_SET_NAME, EGRESS_PROGRAM);
    r = helper_drop(&orders, (Confinement){.readable = {EGRESS_READABLE}, .dials = true}, &problem);
    if (r == 0)
        r = egress_serve_controller(HELPER_FD, &problem);
    if (r < 0)
        log_error("egress process ended", "reason=%s", *problem.text ? problem.text : strerror(-r));
    return r < 0;
}
