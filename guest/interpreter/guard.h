/* Keeps one cell from harming the next: what is broken, of that which Python and the interpreter need to run
 * at all, is put back to what it was at the start. What a cell has chosen stays, as variables, modules, the
 * working directory and threads do: builtins, streams and functions for tracing of its own. Code of
 * limpet_runtime runs without those. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Once, when everything is as cells are to find it. -1 with an exception. */
int guard_init(void);

/* Before a cell. Signals that came between two cells are forgotten. As guard_begin_runtime() besides. */
void guard_begin_cell(void);

/* Before code of limpet_runtime runs for the sake of a cell, which has not begun or has ended. */
void guard_begin_runtime(void);

/* Before code of a cell goes on. */
void guard_end_runtime(void);

/* At the end of a cell: what it printed to a stream of its own in place of sys.stdout or sys.stderr, on top
 * of ours, arrives. */
void guard_flush_replaced(void);
