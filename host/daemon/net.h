/* Clients on other machines: the process that holds the network, started by the launcher or, where there is
 * none, by the controller; and its clients, which become connections of the front. */
#pragma once

#include "host/config/paths.h"
#include "host/front/front.h"
#include "host/net/client/net_client.h"
#include "host/net/start.h"
#include "host/privilege/remote.h"

typedef struct Net {
    const Options *options;
    const Paths *paths;
    Loop *loop;
    Remote *remote; /* NULL: we start it */
    NetDoor door;
    LoopChild child;
    Front *front;
    NetClient *client; /* NULL: no network is listened on */
} Net;

/* Does nothing where no network is to be listened on. 0, or negative with the problem set. */
int net_begin(Net *net, const Options *options, const Paths *paths, Loop *loop, Remote *remote, Front *front,
              Problem *problem);
void net_end(Net *net);
/* The file of keys is to be read again; with a launcher that does it, and tells. */
void net_read_keys(Net *net);
/* Gets the bounds that a user's lines in that file set for his sessions; false: he has no line. */
bool net_bounds(const Net *net, uid_t user, UserBounds *ret);
/* Standard error is another file. */
void net_send_log(Net *net);
