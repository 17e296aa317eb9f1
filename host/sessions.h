/* All sessions of a controller, by name. */
#pragma once

#include "host/session.h"

/* The session that may be used by that name; one that is closing may not. */
Session *sessions_find(Controller *controller, Text name);
/* The session that has that name, closing or not. */
Session *sessions_holder(Controller *controller, Text name);
void sessions_add(Controller *controller, Session *session);
void sessions_remove(Controller *controller, Session *session);

/* name_valid(), or several such names with slashes between: a branch's. */
bool session_path_valid(Text path);
