/* A copy shares all memory with its original until one of the two writes: each page then costs who writes
 * first some microseconds, and the next cell would pay for what every cell writes. */
#pragma once

/* In the original: runs a cell of its own that does nothing, and so takes that time while nobody waits. With
 * the GIL. */
void rehearsal_run(void);
void rehearsal_run_if_quiet(void); /* when nothing is asked of it for a moment */
