/* Shared by remote.c (the launcher as it talks) and remote_engine.c (the engine that is made of it). */
#pragma once

#include <uthash.h>

#include "host/engine/cgroup.h"
#include "host/privilege/remote.h"
#include "host/privilege/seam.h"

typedef struct RemoteContainer {
    Container container;
    UT_hash_handle by_name;
    char name[64];
    bool started, removing;
    int idle; /* descriptor that set_idle writes to, or -1 */
    Cgroup memory, time;
} RemoteContainer;

struct Remote {
    Engine engine;
    EngineOps ops;
    Rpc rpc;
    EngineConfig config;
    RemoteContainer *by_name;
    int clients;
    int keys; /* keys to let in over a network, until they are taken */
    char name[16], image[256], no_disks[PROBLEM_TEXT_MAX];
    void (*sweep_done)(void *userdata, unsigned removed);
    void *sweep_userdata;
    void (*log_moved)(void *userdata);
    void *log_userdata;
    void (*keys_changed)(void *userdata, int keys);
    void *keys_userdata;
    int (*client_of)(void *userdata, uid_t user);
    void *client_userdata;
};

static inline Remote *remote_of(Engine *engine)
{
    return container_of(engine, Remote, engine);
}

static inline RemoteContainer *remote_container(Container *container)
{
    return container_of(container, RemoteContainer, container);
}

/* Sends a message; asks for what is answered with no more than that it is done. */
void remote_say(Remote *remote, SeamKind kind, const Schema *schema, const void *body);
int remote_ask_for(const Remote *remote, SeamKind kind, const Schema *schema, const void *body,
                   int descriptor, Problem *problem);
void remote_free(Remote *remote);

RemoteContainer *remote_find(const Remote *remote, Text name);
void remote_container_free(RemoteContainer *container);
/* Sets the operations of the engine, as the launcher describes it. */
void remote_set_ops(Remote *remote, bool isolates, bool first_process);
