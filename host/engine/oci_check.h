/* Requirements of the engine oci on its host. */
#pragma once

#include "host/engine/engine.h"

/* Refuses a host that could not enforce what a container is promised. *ret_swap_limit: swap can be limited.
 */
int oci_check_host(bool *ret_swap_limit, Problem *problem);

/* EngineOps.check */
void oci_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
               void *userdata);
