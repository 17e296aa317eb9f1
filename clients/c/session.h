/* Opening a session, for what is more than that. */
#pragma once

#include "clients/c/client.h"

/* `ret` may be NULL. 0 or negative, as client_call(). */
int session_open(LimpetClient *client, const MsgOpen *open, LimpetOpened *ret);
