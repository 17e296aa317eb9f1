/* A container of a Docker Engine, from its creation to its removal. */
#pragma once

#include "host/engine/cgroup.h"
#include "host/engine/docker_http.h"
#include "host/engine/docker_json.h"
#include "host/engine/engine.h"

#define DOCKER_CALL_SECONDS 60.0 /* a loaded daemon takes long to start a container */
#define DOCKER_PATH_SIZE    512
#define DOCKER_NAME_SIZE    256

/* A sweep under way; one at a time. */
typedef struct DockerSweep {
    DockerCall *call;
    LoopIdle idle;
    unsigned total, left;
    void (*done)(void *userdata, unsigned removed);
    void *userdata;
} DockerSweep;

typedef struct DockerEngine {
    Engine engine;
    Loop *loop;
    EngineConfig config;
    DockerHttp *http;
    unsigned api_minor;
    List containers;
    DockerSweep sweep;
} DockerEngine;

typedef struct DockerContainer {
    Container container;
    List link;
    char name[DOCKER_NAME_SIZE];
    char *session_dir, *scratch_dir; /* host directories whose mounts are to be released; NULL: none */
    bool made;                       /* the daemon has it, or may have it */
    bool starting;                   /* a call is under way that is to end before it is removed */
    bool removing;
    DockerState state; /* when it had started */
    DockerCall *call;
    LoopTimer wait_timer;
    LoopIdle idle;
    Cgroups cgroups;
} DockerContainer;

/* The directories are those whose mounts are to be released when it is removed; NULL: none. */
DockerContainer *docker_container_new(DockerEngine *docker, const char *name, const char *session_dir,
                                      const char *scratch_dir);

/* Has the daemon make and start it as `body` says; the container's events tell how it goes. After a failure
 * (-ENOMEM) it is freed. */
int docker_container_start(DockerContainer *container, const char *body);

/* Takes over the one of that name which an earlier process made; its events tell whether it runs. After a
 * failure (-ENOMEM) it is freed. */
int docker_container_adopt(DockerContainer *container);

/* EngineOps.remove, EngineOps.leave */
void docker_container_remove(Container *base);
void docker_container_leave(Container *base);

/* The daemon's words, or why it did not answer, as an ENGINE_ERROR. */
void docker_explain(DockerEngine *docker, const DockerReply *reply, Problem *problem);
