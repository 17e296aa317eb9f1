/* GNU OpenMP across forks: a forked child that still has libgomp's pool of threads on record waits for ever
 * for threads that are not there. */
#pragma once

/* Right before a fork, on the thread that forks: ends the pools that this thread has. They start again when
 * they are needed. */
void openmp_pause(void);
