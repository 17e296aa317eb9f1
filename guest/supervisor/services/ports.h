/* Ports of the sandbox's loopback, and sockets at which its code asks.
 *
 * Dials: connections to ports, which are handed to the controller as descriptors. */
#pragma once

#include "guest/supervisor/link/link.h"
#include "proto/base/loop.h"

typedef struct Dials {
    Loop *loop;
    Link *link;
    List all;
    size_t n;
} Dials;

/* Initializes the dials; `loop` and `link` outlive them. */
void dials_init(Dials *all, Loop *loop, Link *link);
void dials_deinit(Dials *all);

/* A `connect`: answered once there is a connection, or none is to be had. -EPROTO with a Problem: it is
 * refused. */
int dials_begin(Dials *all, const Message *message, Problem *problem);

/* Whoever asked is gone. */
void dials_on_controller_lost(Dials *all);

/* Outlet: a port of the sandbox's loopback that leads to the network, as far as the host lets it: whoever
 * connects to it is handed to the egress process of the host, and nothing that is said there is read here. */
typedef struct Outlet {
    Loop *loop;
    LoopFile file;
    LoopTimer retry;
    int host;      /* leads there, or -1 */
    int held;      /* a connection that the host does not take for now, or -1 */
    uint16_t port; /* 0: it is not open */
} Outlet;

void outlet_init(Outlet *outlet, Loop *loop);
void outlet_deinit(Outlet *outlet);

/* Opens it, if it is not: at NETWORK_FORWARDER, or where that is taken, at any port. 0 or a negative errno.
 */
int outlet_open(Outlet *outlet);

/* Listens at a unix socket to which everybody in the sandbox may connect. The descriptor, or a negative
 * errno. */
int listen_at_path(const char *path, int backlog);
