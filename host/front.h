/* Front: the client-facing socket. A frame in becomes a Request for an op; nothing else enters here. */
#pragma once

#include "host/controller.h"
#include "host/link/listener.h"

/* The events of the clients' Listener; userdata is the Controller. */
extern const ListenerEvents front_events;
