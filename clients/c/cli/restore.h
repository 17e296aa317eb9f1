/* limpet open --restore */
#pragma once

#include "clients/c/limpet.h"

/* Becomes the Python that makes a session of a saved one. Returns only when it cannot: EXIT_SANDBOX after a
 * message. */
int restore(const char *file, const char *session, const LimpetOptions *options);
