/* Protocol of the controller with limpet-net, the process that holds the network, and what that
 * program is given by its starter: as a helper, whose own argument is the number of connections it serves. */
#pragma once

#include "host/privilege/helper.h"
#include "proto/fields.h"
#include "proto/certificate.h"

#define NET_PROGRAM "limpet-net"

/* Its descriptors besides the standard ones. */
enum {
    NET_CONTROLLER_FD = HELPER_FD,
    NET_LISTENING_FD, /* the socket that clients connect to */
    NET_SECRET_FD,    /* the file of its key */
};

typedef enum NetKind {
    NET_NONE,
    /* The controller says. */
    NET_KEYS, /* keys to let in, as authorized_read() has it: a descriptor. The first of all, and again */
    NET_LOG,  /* with what standard error is from now on */
    /* The process says. */
    NET_CAME, /* a client, with the socket over which its frames come and go */
} NetKind;

#define SCHEMA_FILE "host/net/protocol.def"
#include "proto/schema/as_structs.h"
