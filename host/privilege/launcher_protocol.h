/* What the controller and the files worker ask of the launcher, which alone has root's rights, and what they
 * are told. */
#pragma once

#include <limits.h>

#include "host/privilege/rpc.h"
#include "proto/base/problem.h"
#include "proto/fields.h"

typedef enum SeamKind {
    SEAM_NONE,
    /* The controller says. */
    SEAM_BEGIN,
    SEAM_READY,
    SEAM_UNABLE,
    SEAM_CREATE,
    SEAM_ADOPT,
    SEAM_REMOVE,
    SEAM_LEAVE,
    SEAM_ATTACH,
    SEAM_SWEEP,
    SEAM_DISK,
    SEAM_DETACH,
    SEAM_OPEN,
    SEAM_PACKAGES,
    SEAM_EGRESS,
    SEAM_NET,
    SEAM_MOUNT,
    SEAM_ASKED, /* one more than the last that it says */
    /* The launcher says. */
    SEAM_DONE = 100,
    SEAM_REFUSED,
    SEAM_STARTED,
    SEAM_FAILED,
    SEAM_GONE,
    SEAM_REMOVED,
    SEAM_SWEPT,
    SEAM_LOG,
    SEAM_KEYS,
} SeamKind;

#define SCHEMA_FILE "host/privilege/launcher_protocol.def"
#include "proto/schema/as_structs.h"

/* Directory of the links of sandboxes, below the runtime directory. */
#define SEAM_LINKS "guests"

/* Asks and waits; a descriptor goes along unless it is -1. 0 with the answer, which is the caller's to deinit
 * either way, or a negative errno with the problem set. Without a launcher it does not return. */
int launcher_ask(const Rpc *launcher, SeamKind kind, const Schema *schema, const void *body, int descriptor,
                 RpcAnswer *ret, Problem *problem);

/* Ends this process, and the controller with it, as a crash of it would: sessions live on, whoever comes next
 * adopts them and does again what was asked for, and no session is told of a failure. At once, because what
 * is done next relies on what was asked for. An RpcEvents.lost; which connection it was does not matter. */
_Noreturn void launcher_lost(Rpc *launcher, int error);
