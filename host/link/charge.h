/* UserCharge: what one user makes a Listener hold. Connections, their bytes that wait to be read or sent, and
 * requests without an answer are charged to it, and over the limits of the Listener refused: nobody else
 * notices. */
#pragma once

#include <sys/types.h>
#include <uthash.h>

#include "host/link/listener.h"

typedef struct UserCharge {
    Listener *listener; /* NULL once that is gone */
    uid_t user;
    size_t bytes, requests, connections;
    bool complained;
    UT_hash_handle by_user;
} UserCharge;

/* Charges one more connection to that user. 0, -EDQUOT or -ENOMEM. */
int charge_connection(UserCharge **ret, Listener *listener, uid_t user);
void charge_connection_over(UserCharge *charge);

/* A connection that held `before` bytes holds `now`. False when that is too much. */
bool charge_bytes(UserCharge *charge, size_t before, size_t now);

/* Charges one more request of so many bytes. 0 or -EDQUOT. */
int charge_request(UserCharge *charge, size_t bytes);
void charge_request_over(UserCharge *charge, size_t bytes);

/* Returns the charge of a peer's user; NULL when the peer is gone. */
UserCharge *listener_charge(const Listener *listener, Peer peer);

/* The listener ends before what is charged does. */
void charges_leave(Listener *listener);
