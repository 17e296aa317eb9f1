/* Seam: what the controller and the process that holds the network say to each other. */
#pragma once

#include "proto/z85.h"
#include "proto/fields.h"

typedef enum NetKind {
    NET_NONE,
    /* The controller says. */
    NET_KEYS, /* keys to let in, as authorized_read() has it: a descriptor. The first of all, and again */
    NET_LOG,  /* with what standard error is from now on */
    /* The process says. */
    NET_CAME, /* a client, with the socket over which its frames come and go */
} NetKind;

#define SCHEMA_FILE "host/net/seam.def"
#include "proto/schema/as_structs.h"
