/* Checkpoints: frozen copies of this process, each of which can be brought back any number of times. */
#pragma once

#include "guest/interpreter/checkpoint/notes.h"
#include "guest/interpreter/pyref.h"

/* A copy shares all memory with its original until one of the two writes: each page then costs who writes
 * first some microseconds, and the next cell would pay for what every cell writes. */

/* In the original: runs a cell of its own that does nothing, and so takes that time while nobody waits. With
 * the GIL. */
void prefault(void);

/* _limpet.fork(fd) → int, for work on the variables that may come to harm: as os.fork(), but for the handlers
 * of libraries, which may wait for their threads for ever. In the child those threads go on; Python's are not
 * there. Where there are others, the child has files, pipes and connections of its own, as a copy that is
 * brought back, so that they take nothing of what is for the parent's; `fd` is the one that both have. */
PyObject *child_fork(PyObject *module, PyObject *fd);

/* Once, at the start: remembers whose child this process is. */
void checkpoint_init(void);

/* Answers `checkpoint` with the message id `id`; `channel`, which is taken, is that of the copy, or -1 when
 * there was no descriptor for it; `automatic`: nobody asked for it, it may end first when memory runs out.
 * Returns in the interpreter, and again in every process that is brought back from the copy, which has said
 * `ready` then. With the GIL. A negative errno when the supervisor is gone. */
int checkpoint_take(uint64_t id, int channel, bool automatic);
