/* Strangers: connections of peers that have not said who they are. They share the room that there is for all
 * of them by the addresses that they come from: whoever fills it makes room from his own. */
#pragma once

#include <netinet/in.h>

#include "proto/base/list.h"

typedef struct StrangersAddress StrangersAddress;

typedef struct Strangers {
    StrangersAddress *addresses; /* uthash */
    size_t n;
} Strangers;

/* Embedded in its owner. */
typedef struct Stranger {
    List link;
    StrangersAddress *address; /* NULL: it is none */
} Stranger;

/* Adds the peer of a connection. 0 or -ENOMEM. */
int strangers_add(Strangers *strangers, Stranger *stranger, int fd);

/* Says that a peer is known, or gone. One that is no stranger is left alone. */
void strangers_remove(Strangers *strangers, Stranger *stranger);

/* Returns who has to go when there are more than `most`: the oldest of the address that has the most of them;
 * otherwise NULL. */
Stranger *strangers_excess(const Strangers *strangers, size_t most);
