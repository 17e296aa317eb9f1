/* Requests that cannot be answered yet because it is not known what became of what they name: of a session
 * that is being adopted; or of a call that nobody here knows, while any session is. */
#pragma once

#include "host/adopt.h"
#include "host/request.h"

/* Whether the request has to wait: it is then handled later, as if it had come then. */
bool adopt_defer(Controller *controller, Request *request, MessageKind kind, const msgpack_object_map *body);

/* Handles those that waited. When the session was lost, `reason` (not "") is what those get that were meant
 * for it. */
void adopt_release(Controller *controller, List *waiting, const char *reason);
