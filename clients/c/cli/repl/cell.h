/* Cell: a block runs in the session, and what it does is shown as it happens. */
#pragma once

#include "clients/c/cli/repl/repl.h"

void cell_run(Repl *repl, const char *code, size_t size);
