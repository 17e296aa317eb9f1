/* The clock of containers. CLOCK_MONOTONIC counts from the start of a machine; theirs, in a time namespace,
 * counts from a date, on every machine. So it does not go back for a session whose memory goes on after a
 * restart or elsewhere: what waits for a deadline there waits no longer than it should. */
#pragma once

#include "host/engine/runtime.h"

typedef struct ContainerClock {
    char *program;       /* that makes the namespace; NULL: containers have the clock of the machine */
    char offset[48];     /* its argument */
    const char *with[4]; /* for runtime_job_init() */
} ContainerClock;

/* Finds out whether containers can have one; blocks. `ret` stays where it is. 0, or a negative errno: they
 * have the clock of the machine. */
int container_clock_open(ContainerClock *ret, const Runtime *runtime);
void container_clock_close(ContainerClock *clock);
