/* The controller as a service of systemd: where its unit is enabled, nobody else starts a controller in its
 * place. */
#pragma once

#include "host/config/paths.h"

/* Starts the enabled unit whose controller has these paths. Returns the exit status of `limpetd --detach`,
 * with words on stderr unless it is 0; -1 where there is no such unit. */
int service_start(const Paths *paths);
