/* Outlet: a port of the sandbox's loopback that leads to the network, as far as the host lets it: whoever
 * connects to it is handed to the egress process of the host, and nothing that is said there is read here. */
#pragma once

#include "proto/base/loop.h"

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
