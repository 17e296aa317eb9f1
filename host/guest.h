/* Guest: the host end of the channel to one guest supervisor. It owns the directory that is mounted at
 * /run/limpet (socket, session name, secret), proves who connects, and passes messages on. All guests share
 * one ROUTER; a message finds its Guest by the connection it came in on. */
#pragma once

#include <uthash.h>

#include "host/controller.h"
#include "host/link/router.h"
#include "proto/wire.h"

typedef struct GuestEvents {
    /* The supervisor has proved itself; again after each reconnection. It waits for guest_welcome. */
    void (*hello)(void *userdata, uint64_t epoch, uint64_t execution_count);
    void (*message)(void *userdata, const Message *message);
    /* Its messages make no sense: it is to be treated as hostile. */
    void (*violation)(void *userdata, const char *what);
} GuestEvents;

struct Guest {
    Controller *controller;
    const GuestEvents *events;
    void *userdata;
    char *directory; /* host path of what is mounted at /run/limpet */
    char *socket;
    char *session;
    uint8_t secret[GUEST_SECRET_SIZE];
    PeerCredentials credentials; /* of the connection that said hello */
    pid_t expected_pid;          /* 0: any process may connect */
    Peer peer;
    bool connected;
    UT_hash_handle by_peer;
    List all;
};

/* Makes the directory and listens. `session` names it to the guest. */
int guest_new(Guest **ret, Controller *controller, const char *session, const GuestEvents *events,
              void *userdata, Problem *problem);
Guest *guest_free(Guest *guest);
DEFINE_CLEANUP(Guest *, guest_free);

/* From now on only this process may be the peer; -EPERM when another one already is. */
int guest_expect(Guest *guest, pid_t pid);

/* Sends a whole encoded message. */
int guest_send(Guest *guest, const Buf *message);

/* The events of the guests' router; userdata is the Controller. */
extern const RouterEvents guest_router_events;

/* Removes link directories that a controller before us left behind. */
void guest_sweep(const Paths *paths);
