/* User namespaces of containers: what is uid 0 inside is nobody on the host.
 *
 * A container has three users. Its uid 0, the supervisor, is SUPERVISOR_UID on the host. The interpreter's
 * uid is the same on both sides, as what it writes is on the disk of its session, and so is the browser's.
 * Images belong to the host's root: containers get them from a mount that shows root's files as
 * SUPERVISOR_UID's (an idmapped mount), read-only, in a directory that only root and SUPERVISOR_UID may
 * enter. Without root (rootless.h) their files show as nobody's. */
#pragma once

#include <jansson.h>
#include <limits.h>

#include "host/engine/engine.h"
#include "host/engine/runtime.h"
#include "proto/limits.h"

typedef struct Userns {
    int map; /* a user namespace with these users; -1: containers have none of their own */
    const EngineConfig *config;
    char directory[PATH_MAX - 32]; /* of the mount */
    char images[PATH_MAX];         /* directory that is mounted there; "": none yet */
} Userns;

#define USERNS_NULL ((Userns){.map = -1})

/* Checks that containers can have a user namespace, for limpetd --check. 0, or -EPROTO with a problem that
 * names what is missing. */
int userns_check(const EngineConfig *config, const Runtime *runtime, Problem *problem);

/* `config` outlives it. What an earlier process left mounted is replaced. As userns_check(). */
int userns_open(Userns *ret, const EngineConfig *config, const Runtime *runtime, Problem *problem);
void userns_close(Userns *userns);

/* Finds the path by which containers get the image at `path` on the host. 0 or a negative errno. */
int userns_path(Userns *userns, const char *path, char ret[static PATH_MAX]);

/* Adds the namespace and its users to the member `linux` of a config.json. 0 or -ENOMEM. */
int userns_describe(json_t *linux_part);
