/* Place of the variables of a session that is saved. */
#pragma once

#include "host/sandbox/sandbox.h"

/* Beginning of all such places: the interpreter removes old ones that were left behind. */
#define SAVED_PLACE_OTHERS "/session/.limpet-saved-"
#define SAVED_PLACE        SAVED_PLACE_OTHERS "idle"

/* Has the supervisor remove it, or another of that kind; nobody waits for that. What stays is replaced the
 * next time. */
void saved_place_remove(Sandbox *sandbox, const char *place);
