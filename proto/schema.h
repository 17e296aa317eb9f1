/* A struct for the body of every message, and for what it has inside: proto/schema/. `Msg` is in the name of
 * all, for they are as things are said; what they are to each side has its own types there. */
#pragma once

#include "proto/fields.h"

#define SCHEMA_FILE "proto/schema/all.def"
#include "proto/schema/as_structs.h"
