/* Protocol of the controller and the files worker with the launcher, which alone has root's
 * rights. */
#pragma once

#include <limits.h>

#include "host/ipc/ipc.h"
#include "proto/base/problem.h"
#include "proto/fields.h"

typedef enum LauncherKind {
    LAUNCHER_NONE,
    /* The controller says. */
    LAUNCHER_BEGIN,
    LAUNCHER_READY,
    LAUNCHER_UNABLE,
    LAUNCHER_CREATE,
    LAUNCHER_ADOPT,
    LAUNCHER_REMOVE,
    LAUNCHER_LEAVE,
    LAUNCHER_ATTACH,
    LAUNCHER_SWEEP,
    LAUNCHER_DISK,
    LAUNCHER_DETACH,
    LAUNCHER_OPEN,
    LAUNCHER_PACKAGES,
    LAUNCHER_EGRESS,
    LAUNCHER_NET,
    LAUNCHER_MOUNT,
    LAUNCHER_ASKED, /* one more than the last that it says */
    /* The launcher says. */
    LAUNCHER_DONE = 100,
    LAUNCHER_REFUSED,
    LAUNCHER_STARTED,
    LAUNCHER_FAILED,
    LAUNCHER_GONE,
    LAUNCHER_REMOVED,
    LAUNCHER_SWEPT,
    LAUNCHER_LOG,
    LAUNCHER_KEYS,
} LauncherKind;

#define SCHEMA_FILE "host/privilege/launcher_protocol.def"
#include "proto/schema/as_structs.h"

/* Directory of the links of sandboxes, below the runtime directory. */
#define LAUNCHER_LINKS "guests"

/* Asks and waits. 0 with the answer, which is the caller's to deinit either way, or a negative errno with the
 * problem set. Without a launcher it does not return. */
int launcher_ask(Ipc *launcher, LauncherKind kind, const Schema *schema, const void *body, IpcAnswer *ret,
                 Problem *problem);

/* Returns as launcher_ask() what an answer says that came otherwise. */
int launcher_answered(const IpcAnswer *answer, Problem *problem);

/* Ends this process, and the controller with it, as a crash of it would: sessions live on, whoever comes next
 * adopts them and does again what was asked for, and no session is told of a failure. At once, because what
 * is done next relies on what was asked for. An IpcEvents.lost; which connection it was does not matter. */
_Noreturn void launcher_lost(Ipc *launcher, int error);
