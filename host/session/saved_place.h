/* Place of the variables of a session that is saved. */
#pragma once

#include "host/sandbox/sandbox.h"

#define SAVED_PLACE "/session/.limpet-saved-idle"

/* Has the supervisor remove it, or another of that kind; nobody waits for that. What stays is replaced the
 * next time. */
void saved_place_remove(Sandbox *sandbox, const char *place);
