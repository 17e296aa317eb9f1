/* limpetd --check: what this host can and cannot do, in plain words. */
#pragma once

#include "host/engine/engine.h"
#include "host/config/paths.h"

/* Prints to standard output. 0 when the engine that would be used can serve, 1 otherwise. */
int check_host(const Options *options, const Paths *paths);

/* Returns the configuration of an engine; the strings stay those of `paths` and `options`. */
EngineConfig engine_config(const Paths *paths, const Options *options);
