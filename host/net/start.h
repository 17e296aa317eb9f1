/* The process that holds the network, limpet-net, from outside: what it is given, and how it is started. It
 * alone has libzmq, which opens what strangers send, and no rights: it cannot open a file, connect to anybody
 * or make a process. What it is given are the socket that listens and its own key. */
#pragma once

#include "host/privilege/helper.h"

typedef struct NetDoor {
    int listening; /* at the address; -1: none */
    int secret;    /* the file of the server's key */
    int keys;      /* keys to let in, as authorized_read() has it */
} NetDoor;

#define NET_DOOR_NULL ((NetDoor){-1, -1, -1})

/* Returns whether this limpetd was built with limpet-net, and it is installed. */
bool net_supported(void);

/* Returns a socket that listens at tcp://ADDRESS:PORT, or negative with the problem set. */
int net_listen(const char *address, Problem *problem);

/* Listens there, opens or makes the file of the key in the state directory, and reads which keys are let in.
 * 0, or negative with the problem set. */
int net_door_open(NetDoor *ret, const char *address, const char *state_dir, const char *authorized_keys,
                  Problem *problem);
void net_door_close(NetDoor *door);

/* Starts the process, as helper_start() has it, which logs what is at least of that level, and serves that
 * many connections at most. `account` is whose rights it has, NULL for our own. -EINVAL: the door is not
 * open. */
int net_start(Loop *loop, LoopChild *child, const NetDoor *door, const Account *account,
              const char *log_level, uint64_t connections, int socket);

/* The text of the server's public key, or false where there is none yet. */
bool net_public_key(const char *state_dir, char ret[static 41]);
