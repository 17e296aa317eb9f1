/* Requests to the Docker Engine and its answers, as JSON. Pure. Answers come from outside: nothing in them is
 * trusted to have a type or a length. */
#pragma once

#include "host/engine/engine.h"

/* From this API version, 1.N, on the daemon makes mounts below a read-only bind read-only too, and can be
 * told to fail where it cannot. Before it they are left out of /data. */
#define DOCKER_API_RECURSIVE_READONLY 44

/* The body of POST /containers/create. `api_minor` is the N of the negotiated version 1.N. *ret_json is to be
 * freed. -ENOMEM. */
int docker_json_create(const ContainerSpec *spec, const char *image, const char *data_dir, const char *view,
                       unsigned api_minor, char **ret_json);

/* The daemon's words for an error, or the beginning of what it said instead. */
void docker_json_message(const char *body, size_t size, char *ret, size_t ret_size);

/* From GET /containers/X/json. */
typedef struct DockerState {
    bool running;
    char id[65]; /* of the container; "" where the daemon does not say */
    pid_t pid;   /* 0 when not running */
    int exit_code;
    char error[256]; /* why it did not start; "" */
} DockerState;
int docker_json_state(const char *body, size_t size, DockerState *ret);

/* From POST /containers/X/wait. */
int docker_json_exit_code(const char *body, size_t size, int *ret);

/* From GET /containers/json: calls `found` with the name of each container and the host directories that are
 * mounted at /session and /tmp, NULL where there is none. */
typedef void (*DockerFound)(void *userdata, const char *name, const char *session_dir, const char *tmp_dir);
int docker_json_list(const char *body, size_t size, DockerFound found, void *userdata);

/* From GET /info. */
typedef struct DockerInfo {
    bool seccomp, memory_limit, pids_limit, swap_limit, live_restore;
    char version[32];
    char cgroup_driver[16];
    char cgroup_version[8]; /* "1" where the daemon does not say */
} DockerInfo;
int docker_json_info(const char *body, size_t size, DockerInfo *ret);
