/* Keeps one cell from harming the next: what Python and the interpreter need to run at all is put back to
 * what it was at the start. Variables, modules, the working directory, threads and the like are the user's
 * state and stay. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Once, when everything is as cells are to find it. -1 with an exception. */
int guard_init(void);

/* Before a cell. Signals that came between two cells are forgotten. */
void guard_begin_cell(void);

/* Before code of limpet_runtime runs for the sake of a cell that has ended. */
void guard_begin_runtime(void);

/* At the end of a cell: what it printed to a stream of its own in place of sys.stdout or sys.stderr, on top
 * of ours, arrives. */
void guard_flush_replaced(void);
