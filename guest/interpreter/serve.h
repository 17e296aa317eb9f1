/* The loop: one message of the supervisor after the other, each answered before the next is read. */
#pragma once

/* With the GIL, which is released while there is nothing to do, so that threads of earlier cells go on.
 * Returns when the supervisor is gone (-EPIPE) or speaks nonsense: a negative errno. */
int serve(void);
