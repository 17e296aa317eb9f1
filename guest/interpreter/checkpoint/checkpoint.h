/* Checkpoints: frozen copies of this process, each of which can be brought back any number of times. */
#pragma once

#include "guest/interpreter/checkpoint/notes.h"

/* Once, at the start: remembers whose child this process is. */
void checkpoint_init(void);

/* Answers `checkpoint` with the message id `id`; `channel`, which is taken, is that of the copy, or -1 when
 * there was no descriptor for it; `automatic`: nobody asked for it, it goes first when memory runs out.
 * Returns in the interpreter, and again in every process that is brought back from the copy, which has said
 * `ready` then. With the GIL. A negative errno when the supervisor is gone. */
int checkpoint_take(uint64_t id, int channel, bool automatic);
