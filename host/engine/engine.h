/* Engine: what runs containers. Everything here is asynchronous: a function starts the work and a callback
 * on the loop says how it went. Engines know nothing of sessions, clients or the wire.
 *
 * A container's life: `create` or `adopt` → exactly one of `started` or `failed`; after `started`, `gone`
 * when its first process ends by itself; `remove` at any time → `removed` once, after which the pointer is
 * dead and no other callback comes. No callback comes from within a function of the engine, and no engine may
 * be closed from within a callback.
 *
 * Containers outlive the process that made them; the next one adopts them, or sweeps them away. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/base/loop.h"
#include "proto/base/problem.h"

typedef struct Engine Engine;
typedef struct Container Container;
typedef struct EngineOps EngineOps;

/* Everything needed to run one container. Strings belong to the caller and are copied where kept. */
typedef struct ContainerSpec {
    const char *name;    /* unique on this engine, [a-z0-9-]+, starts with "limpet-" */
    const char *owner;   /* label limpet.owner: which controller it belongs to */
    const char *session; /* label limpet.session */
    const char *image;   /* "" means the engine's default image */
    uint64_t memory;     /* bytes, no swap on top */
    double cpus;
    unsigned pids;
    uint64_t largest_file;   /* bytes; 0: as the profile has it */
    const char *network;     /* "none", "bridge" or "host" */
    const char *session_dir; /* host directory → /session, read-write, nosuid, nodev */
    const char *scratch_dir; /* host directory, the same: its tmp → /tmp, home → /home/user, work → /work,
                                data → /data */
    const char *link_dir;    /* host directory → /run/limpet, read-only */
    bool work;               /* with /work */
    int data; /* descriptor of a host directory → /data, read-only, no sub-mount writable; -1: empty */
} ContainerSpec;

typedef struct ContainerEvents {
    /* first_process is 0 where the guest's socket peer is another process than the one the engine knows, as
     * with a runtime that runs containers in a kernel of its own. */
    void (*started)(Container *container, void *userdata, pid_t first_process);
    void (*failed)(Container *container, void *userdata, const Problem *problem);
    void (*gone)(Container *container, void *userdata, const char *why);
    void (*removed)(void *userdata);
} ContainerEvents;

/* Whom to tell what became of something that was to be attached, on the loop: before `removed`, and of a
 * container that is left never. `problem` is set where `result` is negative. */
typedef struct AttachDone {
    void (*done)(void *userdata, int result, const Problem *problem);
    void *userdata;
} AttachDone;

#define ATTACH_ASKED 1

/* Control groups by which the kernel counts and governs a container: their directories, NULL where they are
 * not known. They hold as long as the container. */
typedef struct ContainerGroups {
    const char *memory, *time; /* of EngineOps.memory and time */
    const char *idle;          /* of set_idle */
    bool memory_unified, time_unified;
} ContainerGroups;

/* Limits of a ContainerSpec, as bits. */
typedef enum ContainerLimit {
    LIMIT_ON_MEMORY = 1,
    LIMIT_ON_CPUS = 2,
    LIMIT_ON_PIDS = 4,
} ContainerLimit;

/* Configuration that an engine is made with; strings outlive it. */
typedef struct EngineConfig {
    const char *state_dir;   /* of the controller */
    const char *images;      /* images/NAME/rootfs is one */
    const char *runtime_dir; /* small files that need not survive a reboot */
    const char *owner;
    const char *oci_runtime;   /* "runc", "crun", "runsc" or a path */
    const char *userns;        /* "off": containers of oci have no user namespace of their own */
    const char *docker_socket; /* path */
    const char *image;         /* default image, "" to find the newest built one */
    const char *guest_path;    /* the limpet-guest program, for the local engine */
    uint64_t memory;           /* of the pod, and its processors: those of every session there */
    double cpus;
    const char *network_proof; /* of a pod's network. "trust": there is none */
} EngineConfig;

/* A line of `limpetd --check`: the part of the host, how it stands, and what to do about it. */
typedef struct EngineFinding {
    enum { FINDING_OK, FINDING_WARN, FINDING_FAIL } level;
    const char *topic; /* "runtime", "cgroups", "seccomp", "image", ... */
    const char *text;
    const char *advice; /* NULL when nothing is to be done */
} EngineFinding;

struct EngineOps {
    const char *name;           /* "oci", "docker", "pod", "local" */
    bool isolates;              /* false: clients are warned */
    bool peer_is_first_process; /* the guest's socket peer is the container's first process, as the host sees
                                   it */
    bool single; /* there is one container at a time, which others start, with the directories of
                    SESSIONDIR_MOUNTED in it; the controller ends with its session */

    /* Allocates and looks the host over as far as needed to serve; blocking is allowed here. */
    int (*open)(Loop *loop, const EngineConfig *config, Engine **ret, Problem *problem);
    /* No container may be known any more. */
    void (*close)(Engine *engine);

    /* 0: *ret lives until `removed`. Negative: problem says why (IMAGE_MISSING, ENGINE_ERROR, ...), nothing
     * was made. Never calls back before it returns. */
    int (*create)(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events, void *userdata,
                  Container **ret, Problem *problem);
    /* Takes over what an earlier process made, or was still making, of the same spec: `started` when it runs,
     * `failed` when it does not, or is not there; `removed` when nothing is left of it, as for any other.
     * Before the first sweep. Returns as create does. */
    int (*adopt)(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events, void *userdata,
                 Container **ret, Problem *problem);
    /* Kills and removes, whatever stage it is in. */
    void (*remove)(Container *container);
    /* Forgets one that has started or is being adopted: it runs on, for the next process. The pointer is
     * dead, and no callback comes. */
    void (*leave)(Container *container);

    /* Mounts the host directory read-only at /data of a started container whose spec had none, as data of the
     * spec would have been. 0; -EOPNOTSUPP where this engine, kernel or user cannot: the container is as
     * it was, and one is to be made anew with it; another negative errno: it is to be removed. Each with a
     * problem. Or ATTACH_ASKED: another process does it, and `attached` is told which of these it is. */
    int (*attach_data)(Container *container, int data, const AttachDone *attached, Problem *problem);

    /* Puts a set of packages, which are in state_dir/packages/NAME/base, where the code of a started
     * container looks for them (PACKAGES_TARGET), in place of those that it had. 0 or negative with the
     * problem set: it has what it had. Or ATTACH_ASKED, as above. */
    int (*attach_packages)(Container *container, const char *name, const AttachDone *attached,
                           Problem *problem);

    /* Removes every container with our owner label that this process neither made nor adopted, then calls
     * done with how many there were. One sweep at a time. */
    void (*sweep)(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata);

    /* Bytes of memory in use, and how often the kernel has killed for memory; NULL: not asked, which saves
     * half of the work. -errno when unknown. */
    int (*memory)(Container *container, uint64_t *ret_bytes, uint64_t *ret_oom_kills);

    /* Nanoseconds that its processes have been on a processor; -errno when unknown. */
    int (*time)(Container *container, uint64_t *ret_nsec);

    /* Has its processes run only when none of another container wants the processor, or as usual again. What
     * an earlier process has set holds until then. 0, or -errno: it is as it was. */
    int (*set_idle)(Container *container, bool idle);

    /* Gets the groups of a container that has started, by which another process may do the last three. */
    ContainerGroups (*groups)(Container *container);

    /* Returns the ContainerLimits that its containers are not held to. NULL: they are held to all. */
    unsigned (*not_enforced)(const Engine *engine);

    /* The name of the image that another name of it stands for now, "" for the default one; "" when there is
     * known to be none. The text lives until the next call. */
    const char *(*image)(Engine *engine, const char *name);

    /* Says what this host can and cannot do. Blocking is allowed; no engine need be open. */
    void (*check)(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                  void *userdata);
};

/* All engines, ending with NULL. */
extern const EngineOps *const engines[];
const EngineOps *engine_find(const char *name);

/* The engine to use where none is configured: docker when its socket answers, otherwise oci where it can
 * work, as root or as a user with subordinate ids, never local, which does not isolate. NULL: problem says
 * what to do. Blocks for a moment. */
const EngineOps *engine_choose(const EngineConfig *config, Problem *problem);

extern const EngineOps engine_docker, engine_oci, engine_pod, engine_local;

/* Head of every engine's objects. */
struct Engine {
    const EngineOps *ops;
};
struct Container {
    Engine *engine;
    ContainerEvents events;
    void *userdata;
};
