/* Alive: while a prompt is open its session is in use, also when nothing is entered: it ends its ttl after
 * the prompt, not its ttl after the last cell. */
#pragma once

typedef struct Alive Alive;

/* Asks for something of the session now and then, on a thread and a connection of its own. NULL where that is
 * not needed, as the session never ends by itself, or cannot be had. */
Alive *alive_start(const char *session, double ttl);
void alive_stop(Alive *alive);
