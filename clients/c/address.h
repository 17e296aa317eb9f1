/* Address: the path of the controller's socket, or where on another machine it is: tcp://HOST:PORT, or what a
 * command reaches (see dial.h). */
#pragma once

#include "proto/base/base.h"
#include "clients/c/remote.h"
#include "proto/base/problem.h"

typedef struct Address {
    char *path;
    bool shared_parent; /* its directory lies in a place where others can write too, and must be checked */
    bool or_roots;      /* where nobody listens there, root's controller may be the one */
    bool remote;        /* it is on another machine */
    bool dialled;       /* then: it is reached by a command */
    RemoteKeys keys;    /* otherwise */
    bool is_roots;      /* that is not ours to start */
} Address;

#define ADDRESS_NULL ((Address){0})

/* The path given, or where the environment and the user say it is (see limpet_connect). 0, -EPROTO with the
 * problem, or -ENOMEM; the other function likewise. */
int address_init(Address *ret, const char *path, Problem *problem);
void address_deinit(Address *address);

/* Makes the address of root's controller. 0 or -ENOMEM. */
int address_init_roots(Address *ret);

/* Checks that whoever listens there can be trusted to be the user's own. 0, -ENOENT when there is nothing
 * yet, or an error. */
int address_check(const Address *address, Problem *problem);
