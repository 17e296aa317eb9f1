/* The functions of Python that start processes. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Once, when Python is initialised: before a process is started by any of them, that is noted and what was
 * printed comes out. What code sees of them stays as it is. -1 with an exception. */
int starters_watch(void);
