#include "host/egress/serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/egress/internal.h"
#include "host/egress/seam.h"
#include "proto/base/log.h"

/* Names looked up at once, each of which may take as long as a resolver is patient. */
#define RESOLVERS 48

static int begin_tenant(Egress *egress, uint64_t number, Descriptors *descriptors, Served **ret)
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
        r = begin_tenant(egress, said.sandbox, descriptors, &served);
    if (r < 0)
        return r;
    snprintf(served->label, sizeof(served->label), "%.*s", (int)said.label.size, said.label.data);
    served->limit = said.limit;
    network.anywhere = said.anywhere;
    served_set_network(served, &network);
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

static int on_message(Rpc *rpc, const Message *message, Descriptors *descriptors)
{
    Egress *egress = container_of(rpc, Egress, rpc);

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

static void on_lost(Rpc *rpc, int error)
{
    Egress *egress = container_of(rpc, Egress, rpc);

    egress->error = error == -EPIPE ? 0 : error;
    loop_stop(egress->loop, 0);
}

static const RpcEvents events = {on_message, on_lost};

static void end(Egress *egress)
{
    List *link;

    while ((link = list_first(&egress->served)))
        served_free(list_entry(link, Served, link));
    rpc_close(&egress->rpc);
}

/* Serves the controller until it has gone. Look-ups that are still under way end with the process. */
int egress_serve_controller(int socket, Problem *problem)
{
    static Egress egress;
    int r = loop_new(&egress.loop);

    list_init(&egress.served);
    if (r == 0)
        r = worker_new(&egress.resolvers, egress.loop, RESOLVERS, 0);
    if (r == 0)
        r = rpc_open(&egress.rpc, egress.loop, socket, &events);
    if (r == 0)
        r = loop_run(egress.loop);
    if (r == 0)
        r = egress.error;
    end(&egress);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "the egress process ends: %s", strerror(-r)) : 0;
}
