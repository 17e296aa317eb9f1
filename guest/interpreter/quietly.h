/* Python code of ours that runs between two cells, and what it calls: what that prints has no cell to belong
 * to, and goes nowhere. */
#pragma once

/* With the GIL, on the main thread. */
void quietly_begin(void);
/* Ends the process where that is a fork which came back instead of ending. */
void quietly_end(void);
