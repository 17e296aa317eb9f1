/* Requests that cannot be answered yet because it is not known what became of what they name: of a session
 * that is being adopted; or of a call that nobody here knows, while any session is. And those about a session
 * that is saved, which is woken for them. */
#pragma once

#include "host/front/front.h"

/* Returns whether the request has to wait: it is then handled later, as if it had come then. */
bool defer_request(Front *front, Request *request, MessageKind kind, const msgpack_object_map *body);

/* The session is awake, or (`failure` is not NULL) is not. */
void defer_release_woken(Front *front, Session *trunk, const Problem *failure);

/* Events of adoption, for which requests wait: userdata is the Front. */
extern const AdoptingEvents defer_events;
