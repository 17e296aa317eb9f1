/* The stacks of new threads. */
#pragma once

/* Once, before any thread: where the process may hold only so much data, which stacks count as, those of new
 * threads are a small part of that. */
void threadstack_limit(void);
