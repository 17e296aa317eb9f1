/* What whoever starts limpet-net and that program agree on. Its arguments are the process that starts it,
 * whose rights it has ("-": its own), the level of its log, and how many connections it serves. */
#pragma once

#define NET_PROGRAM "limpet-net"

/* Its descriptors besides the standard ones. */
enum {
    NET_SEAM_FD = 3,  /* to the controller */
    NET_LISTENING_FD, /* the socket that clients connect to */
    NET_SECRET_FD,    /* the file of its key */
};
