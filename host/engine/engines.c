#include "host/engine/engine.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/engine/docker_http.h"
#include "host/engine/rootless.h"
#include "proto/base/program.h"

#define ROOTS_SOCKET "/run/limpet/limpet.sock"

const EngineOps *const engines[] = {&engine_docker, &engine_oci, &engine_pod, &engine_local, NULL};

const EngineOps *engine_find(const char *name)
{
    for (size_t i = 0; engines[i]; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

/* Finds the group through which root's controller serves this user from the next login on. */
static bool find_group_of_next_login(char *ret, size_t size)
{
    const struct passwd *user = getpwuid(geteuid());
    const struct group *group = NULL;
    struct stat status;

    if (user && access(ROOTS_SOCKET, W_OK) < 0 && errno == EACCES && stat(ROOTS_SOCKET, &status) == 0)
        group = getgrgid(status.st_gid);
    for (size_t i = 0; group && group->gr_mem[i]; i++)
        if (strcmp(group->gr_mem[i], user->pw_name) == 0) {
            snprintf(ret, size, "%s", group->gr_name);
            return true;
        }
    return false;
}

const EngineOps *engine_choose(const EngineConfig *config, Problem *problem)
{
    char *runtime _cleanup_(freep) = NULL;
    char version[16];
    unsigned minor;
    Problem reason = PROBLEM_NULL;
    char group[64];

    if (docker_http_negotiate(config->docker_socket, version, &minor) == 0)
        return &engine_docker;
    if (find_group_of_next_login(group, sizeof(group)))
        problem_set(
            problem, ERR_ENGINE_ERROR,
            "root's controller serves members of the group %s, of which you are one from the next login "
            "on: run `newgrp %s` in this shell, or log in again",
            group, group);
    else if (geteuid() != 0 && rootless_check(&reason) < 0)
        problem_set(problem, ERR_ENGINE_ERROR,
                    "no container engine: no Docker Engine answers this user on %s, and %s. Or set "
                    "LIMPET_ENGINE=local, which does not isolate",
                    config->docker_socket, reason.text);
    else if (spawn_find(config->oci_runtime, &runtime) < 0)
        problem_set(problem, ERR_ENGINE_ERROR,
                    "no container engine: no Docker Engine answers on %s, and the OCI runtime '%s' is not "
                    "installed; start "
                    "a Docker Engine, install runc, or set LIMPET_ENGINE=local, which does not isolate",
                    config->docker_socket, config->oci_runtime);
    else
        return &engine_oci;
    return NULL;
}
