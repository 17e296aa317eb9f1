/* Sessions that are to have packages before anyone is told that they are open. */
#pragma once

#include "host/front/front.h"

/* Installs what the session's options name. Ends in session_all_ready() or session_fail(), later. */
void prepare_session(Front *front, Session *trunk);
