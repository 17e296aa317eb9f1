#include "host/engine/engine.h"

#include <string.h>

#include "host/engine/docker_http.h"
#include "proto/base/program.h"

const EngineOps *const engines[] = {&engine_docker, &engine_oci, &engine_local, NULL};

const EngineOps *engine_find(const char *name)
{
    for (size_t i = 0; engines[i]; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

const EngineOps *engine_choose(const EngineConfig *config, Problem *problem)
{
    char *runtime _cleanup_(freep) = NULL;
    char version[16];
    unsigned minor;

    if (docker_http_negotiate(config->docker_socket, version, &minor) == 0)
        return &engine_docker;
    if (geteuid() != 0)
        problem_set(problem, ERR_ENGINE_ERROR,
                    "no container engine: the engine oci needs root, and no Docker Engine answers this user "
                    "on %s; use "
                    "sudo, start a Docker Engine that admits this user, or set LIMPET_ENGINE=local, which "
                    "does not isolate",
                    config->docker_socket);
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
