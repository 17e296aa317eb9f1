/* The namespace of cells, told without running code of theirs. */
#pragma once

#include "proto/wire.h"

/* Writes the fields `names` and `more`. With the GIL. */
void write_namespace(Writer *w);
