/* The field `changed` of what a cell has done. */
#pragma once

#include "proto/wire.h"

/* Writes the map of names added, changed and deleted since the last call, or nil; at most LIMIT_CHANGED of
 * them. With the GIL. */
void write_changed(Writer *w);
