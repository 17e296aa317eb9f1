/* limpetd --check: what this host can and cannot do, in plain words. */
#pragma once

#include "host/engine/engine.h"
#include "host/config/paths.h"

/* Prints to standard output. 0 when the engine that would be used can serve, 1 otherwise. */
int check_host(const Options *options, const Paths *paths);

/* What an engine is told; the strings stay theirs. */
EngineConfig engine_config(const Paths *paths, const Options *options);
