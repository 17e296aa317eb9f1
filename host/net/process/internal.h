/* Parts of limpet-net: one ROUTER with CURVE, and for each connection whose client has said something a
 * socket to the controller, over which its frames go as they are.
 *
 * libzmq tells when a connection begins and ends by its monitor, and of each message which connection it came
 * by; it cannot end one, for which its descriptor is shut down. */
#pragma once

#include <zmq.h>
#include <uthash.h>

#include "host/net/authorized.h"
#include "host/network/strangers.h"
#include "host/ipc/ipc.h"
#include "proto/certificate.h"
#include "proto/zmtp_socket.h"

typedef struct Door {
    Loop *loop;
    Ipc ipc; /* to the controller */
    int error;
    void *context, *router, *monitor, *zap;
    LoopFile router_file, monitor_file, zap_file;
    LoopIdle look; /* for what libzmq has, whose descriptors tell of a change and no more */
    Authorized keys;
    uint64_t most;              /* lines at once */
    struct NetLine *by_fd;      /* uthash: each connection */
    struct NetLine *by_routing; /* uthash: those that have said something */
    Strangers strangers;        /* and those that have not */
    List dropped;               /* NetLine */
    uint64_t complained;        /* when a refusal was last logged */
} Door;

/* Bytes that a client may have waiting before it is dropped: from it, until the controller takes them; and to
 * it, until libzmq has sent them. */
#define QUEUE_IN  (4u * LIMIT_CLIENT_FRAME)
#define QUEUE_OUT (4u * LIMIT_GUEST_FRAME)

/* Bytes that all of them may have waiting, in half of the memory that there is: beyond, the one that has most
 * is dropped, of the key that has most. */
#define QUEUES_OF_ALL (512u << 20)

/* Counts what libzmq still has for a line, whose end it may outlive. */
typedef struct Backlog Backlog;

/* A connection. */
typedef struct NetLine {
    Door *door;
    int fd; /* libzmq's */
    UT_hash_handle in_fds, in_routings;
    Stranger stranger; /* until it has said something */
    LoopTimer silence; /* likewise */
    bool dropped;      /* to be shut down before the loop waits again */
    List in_dropped;   /* until then */
    char address[65];
    char key[Z85_KEY_SIZE + 1]; /* "": it has said nothing */
    uint8_t routing[256];       /* its id */
    size_t routing_size;
    ZmtpSocket link; /* to the controller */
    Buf early;       /* frames that came before hands were shaken there, each after its size */
    Backlog *backlog;
} NetLine;

/* line.c */
/* libzmq has taken a connection, or it has ended. */
void line_begin(Door *door, int fd);
void line_end(Door *door, int fd);
/* The line that a message came by, which is known from now on; NULL: it is to be dropped. */
NetLine *line_of(Door *door, zmq_msg_t *routing, zmq_msg_t *message);
/* Takes a frame from the client. */
void line_take(NetLine *line, const void *bytes, size_t size);
void line_drop(NetLine *line, const char *why);
void lines_shut_dropped(Door *door);
/* Keys may have changed. */
void lines_check(Door *door);
void lines_free(Door *door);
size_t lines_of(const Door *door, const char *key);

/* door.c */
int door_serve(int controller, int listening, const Certificate *certificate, uint64_t most,
               Problem *problem);
/* Says that something was refused, once in a while. */
void door_complain(Door *door, const char *why, const char *address);
/* Connections that have begun or ended: of a message is known what it came by once all of them are taken. */
void door_take_events(Door *door);
/* libzmq has been called, and what its descriptors told may have been taken. */
void door_look_again(Door *door);
