/* Front: the client-facing socket. A frame in becomes a Request for an op; nothing else enters here. */
#pragma once

#include "host/controller.h"
#include "host/link/router.h"

/* The events of the clients' router; userdata is the Controller. */
extern const RouterEvents front_events;
