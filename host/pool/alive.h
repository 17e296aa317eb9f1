/* Whether a process is there to answer, as far as the kernel knows at this moment. */
#pragma once

#include "proto/base/base.h"

/* False also for one that is only about to end: process 1 of a container that was killed waits for all the
 * others first, and until then no end of it is told. */
bool process_is_alive(int pid);
