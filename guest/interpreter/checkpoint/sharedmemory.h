/* Memory that a fork does not copy: mappings shared with whoever has the same file. Those whose file has no
 * name (any more) and is mapped once, as multiprocessing's values and locks, get one of their own in each
 * copy. */
#pragma once

#include "guest/interpreter/checkpoint/notes.h"

typedef struct SharedPart {
    char *start;
    size_t size;
} SharedPart;

typedef struct SharedMemory {
    SharedPart *parts;
    size_t n;
    bool stays; /* there is more, which others have, too */
} SharedMemory;

/* In the frozen copy: makes it memory of its own, as it is now, where that can be. */
void sharedmemory_leave(SharedMemory *shared);

/* In a copy brought back: makes it shared, with the children it will have. Notes what stays shared. 0 or a
 * negative errno. */
int sharedmemory_enter(SharedMemory *shared, Notes *notes);
