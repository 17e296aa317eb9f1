/* A frozen copy's state that is in the kernel and not in its memory: descriptors, by the paths of their
 * files; the directory; signals; limits. The memory is kept with a record of it (keep.h); a process that
 * becomes the copy makes it anew. Nothing here may allocate (threads.h). */
#pragma once

#include "guest/interpreter/checkpoint/notes.h"

/* In the frozen copy: everything but its channel and `except`. 0 or a negative errno. */
int surroundings_record(int except);

/* In a process that has become it, whose channel, which is taken, is the only descriptor besides 0, 1 and 2.
 */
void surroundings_restore(int channel, Notes *notes);
