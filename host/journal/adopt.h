/* Adopting: a controller takes over the sandboxes of one that was killed. Each journal (journal.h) becomes a
 * Sandbox again, and the engine is asked for its container; what follows is adoption.h's. */
#pragma once

#include "host/journal/adoption.h"

/* The engine that the sessions of an earlier controller are on, which is no other's: NULL when there are
 * none. */
const EngineOps *adopt_engine(const Paths *paths);

/* At start: every journal there is. Then what nobody adopted can be swept away. True when there were
 * containers that an engine was perhaps still making. */
bool adopt_all(Adopting *all);
