/* Requests that cannot be answered yet because it is not known what became of what they name: of a session
 * that is being adopted; or of a call that nobody here knows, while any session is. */
#pragma once

#include "host/front/front.h"

/* Whether the request has to wait: it is then handled later, as if it had come then. */
bool defer_request(Front *front, Request *request, MessageKind kind, const msgpack_object_map *body);

/* What requests wait for: userdata is the Front. */
extern const AdoptingEvents defer_events;
