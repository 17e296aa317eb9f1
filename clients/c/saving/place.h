/* A directory of the sandbox for variables on their way. */
#pragma once

#include "clients/c/client.h"

#define PLACE_SIZE 48u

/* "/session/.limpet-saved-...", which nobody has. 0, or -EPROTO with the problem. */
int place_make(char ret[static PLACE_SIZE], Problem *problem);

/* Removes a place. A failure changes nothing: the client's problem stays as it is. */
void place_remove(LimpetClient *client, const char *session, const char *place);
