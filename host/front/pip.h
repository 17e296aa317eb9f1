/* Requests of pip in a session, which the session's option `pip` allows or not. */
#pragma once

#include "host/front/front.h"

/* The supervisor passes on what some process wants; it is told what comes of it with that id. */
void pip_asked(Front *front, Sandbox *sandbox, uint64_t id, Text packages);
