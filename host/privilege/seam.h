/* Seam: what the controller asks of the launcher, which alone has root's rights, and what it is told. */
#pragma once

#include <limits.h>

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

#define SCHEMA_FILE "host/privilege/seam.def"
#include "proto/schema/as_structs.h"

/* Directory of the links of sandboxes, below the runtime directory. */
#define SEAM_LINKS "guests"
