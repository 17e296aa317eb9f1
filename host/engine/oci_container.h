/* A container that an OCI runtime runs, from its start or adoption to its removal. Its bundle is the
 * directory that the runtime takes the description from, and leaves its pid and log in. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "host/engine/cgroup.h"
#include "host/engine/engine.h"
#include "host/engine/runtime.h"
#include "host/engine/userns.h"
#include "proto/base/base.h"

/* Makes the directory with config.json in it; nothing is left after a failure. */
int bundle_write(const char *bundle, const char *config);

/* A sweep under way; one at a time. */
typedef struct OciSweep {
    LoopIdle idle;
    unsigned total, left;
    void (*done)(void *userdata, unsigned removed);
    void *userdata;
} OciSweep;

typedef struct OciEngine {
    Engine engine;
    Loop *loop;
    EngineConfig config;
    Runtime runtime;
    bool limits; /* containers have control groups of their own, and with them limits */
    bool swap_limit;
    Userns userns;
    ContainerClock clock;
    char bundles[PATH_MAX]; /* a directory in here exists as long as the runtime may know its container */
    char image[NAME_MAX];
    List containers;
    OciSweep sweep;
} OciEngine;

typedef enum OciStage {
    OCI_STARTING, /* the runtime is at it, or is to be looked for */
    OCI_RUNNING,
    OCI_ENDED, /* never came up, or is gone */
    OCI_DELETING,
} OciStage;

typedef struct OciContainer {
    Container container;
    List link;
    OciStage stage;
    bool removing;
    char *name;
    char *bundle, *log, *pid_file; /* paths */
    char network[8];
    RuntimeJob job;
    LoopChild first;   /* the container's first process */
    LoopChild runtime; /* of an earlier controller, still at it */
    LoopIdle idle;
    LoopTimer timer;
    Cgroups cgroups;
} OciContainer;

static inline OciEngine *oci_engine_of(const OciContainer *container)
{
    return container_of(container->container.engine, OciEngine, engine);
}

/* Known to the engine from now on. NULL when out of memory. */
OciContainer *oci_container_new(OciEngine *oci, const char *name);
void oci_container_free(OciContainer *container);

/* Returns whether that process is its first one. To be asked while a pidfd of it is held and has not ended,
 * so that the answer is about that process. */
bool oci_container_has(const OciContainer *container, pid_t pid);

/* Its group in every hierarchy. It is beside those of the host's own programs and not in one of ours with the
 * other containers': only so is a container that is set idle behind those programs, too, of which the
 * controller and its clients are some. */
void oci_container_cgroup(const OciContainer *container, char ret[static PATH_MAX]);

/* The bundle is there: has the runtime start it; the container's events tell how it goes. */
void oci_container_run(OciContainer *container);

/* Takes over what an earlier process made by this name, or was making: its events tell whether it runs. With
 * `removing` set it is removed instead, whatever there is of it. */
void oci_container_adopt(OciContainer *container);

/* EngineOps.remove */
void oci_container_remove(Container *base);

/* Parts of oci_container_adopt. */
