/* Sources: the directories of the host that a container is to have, mounted where nobody but root can put
 * something else in their place: an engine opens them by their path, later. They go when it has. */
#pragma once

#include <limits.h>

#include "host/launcher/demand.h"

typedef struct Sources {
    const char *state_dir;
    const char *runtime_dir;
    int state; /* handles on both */
    int runtime;
} Sources;

#define SOURCES_NULL ((Sources){.state = -1, .runtime = -1})

/* The paths for a container's description. */
typedef struct SourcePaths {
    char session[PATH_MAX], scratch[PATH_MAX], link[PATH_MAX];
} SourcePaths;

/* Opens both directories; strings outlive it. 0 or a negative errno. */
int sources_open(Sources *sources, const char *state_dir, const char *runtime_dir);
void sources_close(Sources *sources);

/* Mounts those of a demand. 0, or negative with the problem set and nothing mounted. */
int sources_make(const Sources *sources, const Demand *demand, SourcePaths *ret, Problem *problem);
/* Takes them away: a container that has started has its own. Nothing there is no reason to complain. */
void sources_release(const Sources *sources, const char *container);
/* Takes away those of every container that is not in use. */
void sources_sweep(const Sources *sources, bool (*in_use)(void *userdata, const char *container),
                   void *userdata);

/* A handle on sessions/ID, or a negative errno. */
int sources_session(const Sources *sources, const char *directory);
