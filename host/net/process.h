/* Contract between limpet-net and its starter. The program is a helper whose own argument is the number of
 * connections it serves. */
#pragma once

#include "host/privilege/helper.h"

#define NET_PROGRAM "limpet-net"

/* Its descriptors besides the standard ones. */
enum {
    NET_SEAM_FD = HELPER_FD, /* to the controller */
    NET_LISTENING_FD,        /* the socket that clients connect to */
    NET_SECRET_FD,           /* the file of its key */
};
