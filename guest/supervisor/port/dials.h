/* Dials: connections to ports of the sandbox's loopback, which are handed to the controller as descriptors.
 */
#pragma once

#include "guest/supervisor/link/link.h"

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
