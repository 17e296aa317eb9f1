/* Sandboxes: all that a controller has, and what they share. */
#pragma once

#include "host/sandbox/cpu_yield.h"
#include "host/egress/client/egress_client.h"
#include "host/engine/engine.h"
#include "host/file_service/client/file_service_client.h"
#include "host/config/options.h"
#include "host/config/paths.h"
#include "host/sandbox/memory_image.h"

typedef struct Sandbox Sandbox;

/* Events of all sandboxes, told to the rest of the controller, and questions to it. */
typedef struct SandboxesEvents {
    void (*begins)(Sandbox *sandbox);   /* its directories are there; its container is made next */
    void (*assigned)(Sandbox *sandbox); /* a spare one is a session's from now on */
    void (*changed)(Sandbox *sandbox);  /* its options */
    void (*closing)(Sandbox *sandbox);
    bool (*parking)(Sandbox *sandbox); /* its container goes next, unless this is false */
    void (*parked)(Sandbox *sandbox);  /* the container has gone; the sandbox may be left now */
    void (*over)(Sandbox *sandbox);    /* nothing more is to be written down of it; may be said twice */
    void (*asked)(Sandbox *sandbox, uint64_t id, Text packages);    /* pip in a session wants these */
    void (*image_opened)(void *userdata, const MemoryImage *image); /* or it cannot be */
    void (*gone)(void *userdata); /* one is, and whoever waited for that was told */
    /* The host has no room for one: gives up what can be spared. False when there was nothing. */
    bool (*make_room)(void *userdata);
    bool (*has_room)(void *userdata); /* the room that was given up is there */
} SandboxesEvents;

typedef struct Sandboxes {
    const Options *options;
    const Paths *paths;
    Loop *loop;
    Engine *engine;
    FileServiceClient *file_service; /* of their files */
    EgressClient *egress;            /* through which they reach the network */
    bool has_disks;                  /* sessions write to file systems of their own */
    List list;                       /* Sandbox.link: all that are not freed */
    MemoryImages images;             /* with which they begin */
    List openings;                   /* DataOpening: directories that sandboxes are to have */
    uint64_t last_number;
    CpuYields cpu_yields;
    const SandboxesEvents *events;
    void *userdata; /* of the events */
} Sandboxes;

/* Sets up the lists. The other members are their owner's, and set before the first sandbox. */
void sandboxes_init(Sandboxes *all);
void sandboxes_deinit(Sandboxes *all);

/* The number of the next message to a supervisor: later than any that a controller before us used. */
uint64_t sandboxes_next_number(Sandboxes *all);

/* Returns the name of the engine that clients are told. */
const char *sandboxes_engine(const Sandboxes *all);
const char *sandboxes_image(const Sandboxes *all, const char *name); /* EngineOps.image() */
bool sandboxes_isolate(const Sandboxes *all);

/* Finds the names of the options that are limits and that nothing holds a session to. Returns how many. */
#define SANDBOX_LIMITS 5
size_t sandboxes_not_enforced(const Sandboxes *all, const char *ret[static SANDBOX_LIMITS]);
