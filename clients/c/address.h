/* Address: the path of the controller's socket, or tcp://HOST:PORT of one on another machine. */
#pragma once

#include "proto/base/base.h"
#include "clients/c/keys.h"
#include "proto/base/problem.h"

typedef struct Address {
    char *path;
    bool shared_parent; /* its directory lies in a place where others can write too, and must be checked */
    bool or_roots;      /* where nobody listens there, root's controller may be the one */
    bool remote;        /* on another machine: tcp://HOST:PORT */
    RemoteKeys keys;    /* then */
    bool is_roots;      /* root's, which is not ours to start */
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
