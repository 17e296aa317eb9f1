/* What is said around a copy, without Python: a frozen copy has none. Nothing else is on the channel then. */
#pragma once

#include "proto/base/base.h"

/* All: 0 or a negative errno. */

/* With what tells how much memory this process holds: nobody else may open it. */
int say_frozen(uint64_t id);

/* `error` is 0 or the negative errno of what kept a copy from being made; `why` says it better, or is empty.
 */
int say_checkpointed(uint64_t id, int error, const char *why);

/* What became of the memory that was to be kept; `error` is NULL where it was. */
int say_saved(uint64_t id, const char *error);
