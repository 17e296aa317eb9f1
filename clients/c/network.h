/* Wire form of what a session may reach. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/schema.h"

/* Checks that each binding has a name, a url, and headers as "Name: value". 0, or -EPROTO with the problem
 * set. NULL will do. */
int bindings_check(const LimpetBinding *bindings, Problem *problem);

/* Returns the wire form of bindings, which must be there until they are written; nothing of NULL. */
Value bindings_say(const LimpetBinding *bindings);
Value texts_say(const char *const *texts);
