/* Wards: the containers that the launcher looks after. They outlive the controller that asked for them: the
 * next one adopts them by their names, or they are swept away. */
#pragma once

#include <limits.h>
#include <uthash.h>

#include "host/engine/engine.h"
#include "host/launcher/demand.h"

/* Sources: the directories of the host that a container is to have, mounted where nobody but root can put
 * something else in their place: an engine opens them by their path, later. They go when it has. */
typedef struct Sources {
    const char *state_dir;
    const char *runtime_dir;
    int state; /* handles on both */
    int runtime;
} Sources;

#define SOURCES_NULL ((Sources){.state = -1, .runtime = -1})

/* Opens both directories; strings outlive it. 0 or a negative errno. */
int sources_open(Sources *sources, const char *state_dir, const char *runtime_dir);
void sources_close(Sources *sources);

/* A handle on sessions/ID, or a negative errno. */
int sources_session(const Sources *sources, const char *directory);

typedef enum WardState {
    WARD_STARTING, /* made or adopted, and not there yet */
    WARD_STARTED,
    WARD_FAILED,
    WARD_GONE,
} WardState;

typedef struct Wards Wards;

typedef struct Ward {
    UT_hash_handle by_name;
    Wards *all;
    char name[DEMAND_NAME_SIZE];
    Container *container;
    WardState state;
    bool orphan;   /* the controller that asked for it is gone, and no other has adopted it */
    bool removing; /* likewise with `orphan`: nobody is told of its end */
    bool swept;
    pid_t first_process; /* as EngineOps tells it */
    Problem problem;     /* why it failed, or has gone */
} Ward;

typedef struct WardsEvents {
    void (*started)(Wards *wards, const Ward *ward);
    void (*failed)(Wards *wards, const char *name, const Problem *problem);
    void (*gone)(Wards *wards, const Ward *ward);
    void (*removed)(Wards *wards, const char *name);
    void (*swept)(Wards *wards, unsigned removed);
} WardsEvents;

struct Wards {
    Engine *engine;
    const char *owner;
    const Sources *sources;
    const WardsEvents *events;
    size_t most; /* at once */
    Ward *by_name;
    bool sweeping, sweep_again;
    unsigned to_sweep, swept; /* wards that are still there, and all so far */
};

/* Each does what the demand says, as the events tell. 0, or -EBADMSG for what no honest controller asks. */
int wards_create(Wards *wards, const Demand *demand, int data); /* -1: none */
int wards_adopt(Wards *wards, const Demand *demand);
int wards_remove(Wards *wards, const char *name);
int wards_leave(Wards *wards, const char *name);
int wards_sweep(Wards *wards);

/* 0, or as EngineOps.attach_data. */
int wards_attach(Wards *wards, const char *name, int data, Problem *problem);

/* 0, or as EngineOps.attach_packages. */
int wards_attach_packages(Wards *wards, const char *name, const char *packages, Problem *problem);

/* The controller is gone. */
void wards_orphan(Wards *wards);

/* Leaves all that have started to the next launcher. At the very end: what was being made
 * goes on without anybody. Whether all could be left. */
bool wards_leave_all(Wards *wards);
