/* LauncherContainers: the containers that the launcher looks after. They outlive the controller that asked
 * for them: the next one adopts them by their names, or they are swept away. */
#pragma once

#include <limits.h>
#include <uthash.h>

#include "host/engine/engine.h"
#include "host/launcher/request.h"

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

typedef enum LauncherContainerState {
    CONTAINER_STARTING, /* made or adopted, and not there yet */
    CONTAINER_STARTED,
    CONTAINER_FAILED,
    CONTAINER_GONE,
} LauncherContainerState;

typedef struct LauncherContainers LauncherContainers;

typedef struct LauncherContainer {
    UT_hash_handle by_name;
    LauncherContainers *all;
    char name[REQUEST_NAME_SIZE];
    Container *base;
    LauncherContainerState state;
    bool orphan;   /* the controller that asked for it is gone, and no other has adopted it */
    bool removing; /* likewise with `orphan`: nobody is told of its end */
    bool swept;
    pid_t first_process; /* as EngineOps tells it */
    Problem problem;     /* why it failed, or has gone */
} LauncherContainer;

typedef struct LauncherContainersEvents {
    void (*started)(LauncherContainers *containers, const LauncherContainer *container);
    void (*failed)(LauncherContainers *containers, const char *name, const Problem *problem);
    void (*gone)(LauncherContainers *containers, const LauncherContainer *container);
    void (*removed)(LauncherContainers *containers, const char *name);
    void (*swept)(LauncherContainers *containers, unsigned removed);
} LauncherContainersEvents;

struct LauncherContainers {
    Engine *engine;
    const char *owner;
    const Sources *sources;
    const LauncherContainersEvents *events;
    size_t most; /* at once */
    LauncherContainer *by_name;
    bool sweeping, sweep_again;
    unsigned to_sweep, swept; /* containers that are still there, and all so far */
};

/* Each does what the request says, as the events tell. 0, or -EBADMSG for what no honest controller asks. */
int containers_create(LauncherContainers *containers, const LauncherRequest *request,
                      int data); /* -1: none */
int containers_adopt(LauncherContainers *containers, const LauncherRequest *request);
int containers_remove(LauncherContainers *containers, const char *name);
int containers_leave(LauncherContainers *containers, const char *name);
int containers_sweep(LauncherContainers *containers);

/* 0, or as EngineOps.attach_data. */
int containers_attach(LauncherContainers *containers, const char *name, int data, Problem *problem);

/* 0, or as EngineOps.attach_packages. */
int containers_attach_packages(LauncherContainers *containers, const char *name, const char *packages,
                               Problem *problem);

/* The controller is gone. */
void containers_orphan(LauncherContainers *containers);

/* Leaves all that have started to the next launcher. At the very end: what was being made
 * goes on without anybody. Whether all could be left. */
bool containers_leave_all(LauncherContainers *containers);
