/* Arrays in pages of their own: an allocator's lock may be held by a thread that rests. */
#pragma once

#include "proto/base/base.h"

/* Room for one more than `n` items of `size` bytes; the array may move. NULL when there is no memory: it is
 * as it was then. */
void *pages_room(void *items, size_t n, size_t size);

void pages_free(void *items, size_t n, size_t size);
