/* Memory of Python's small objects: beyond the first megabytes in huge pages, of which a fork copies one
 * table entry instead of 512. */
#pragma once

#include "proto/base/base.h"

/* Once, before Python is initialised; the process's allowance is known. */
void arena_install(void);

/* The two functions that Python gets. NULL when there is no memory, or no more may be held. */
void *arena_allocate(void *unused, size_t size);
void arena_free(void *unused, void *arena, size_t size);
