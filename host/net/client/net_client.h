/* The process that holds the network as the controller sees it: it is started with the controller, and again
 * whenever it ends. What comes through it are connections of clients with a key each; the controller says who
 * may come in, and looks each up itself. */
#pragma once

#include "host/net/authorized.h"
#include "proto/base/loop.h"

typedef struct NetClient NetClient;

/* Starts a process, which serves the socket and ends with that: a HelperProcessStarter. */
typedef int NetStarter(void *userdata, int socket);

typedef struct NetClientEvents {
    /* A client, whose frames come and go over the descriptor, which is the receiver's. */
    void (*came)(void *userdata, int fd, const AuthorizedKey *key);
    /* Other keys may come in from now on. */
    void (*changed)(void *userdata);
} NetClientEvents;

/* `keys` is as authorized_read() has it, and the client's from now on, after a failure too. 0, or negative
 * with the problem set. */
int net_client_new(NetClient **ret, Loop *loop, int keys, NetStarter *start, void *starter,
                   const NetClientEvents *events, void *userdata, Problem *problem);
NetClient *net_client_free(NetClient *client);

/* Other keys from now on. What cannot be read is no change. The descriptor is taken over. */
void net_client_set_keys(NetClient *client, int keys);
const Authorized *net_client_keys(const NetClient *client);
/* Says where the log is from now on. */
void net_client_say_log(NetClient *client);
