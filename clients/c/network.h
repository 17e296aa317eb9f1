/* How what a session may reach is said. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/schema.h"

/* Whether each has a name, a url, and headers as "Name: value". 0, or -EPROTO with the problem set. NULL will
 * do. */
int bindings_check(const LimpetBinding *bindings, Problem *problem);

/* What they point to must be there until they are written; nothing of NULL. */
Value bindings_say(const LimpetBinding *bindings);
Value texts_say(const char *const *texts);
