/* Completion at the cursor: names of the session, attributes, and the words of our commands. */
#pragma once

#include "clients/c/cli/repl/words.h"

/* A WordsFinder; the context is the Repl. */
void complete_line(void *context, const char *before, Words *ret);
