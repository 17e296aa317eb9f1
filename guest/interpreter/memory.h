/* Memory of the process: how much there may be, and where it lies. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/base.h"

/* Memory of Python's small objects: beyond the first megabytes in huge pages, of which a fork copies one
 * table entry instead of 512. */

/* Once, before Python is initialised; the limit of memory is known. */
void arena_install(void);

/* Allowance of memory for the process, so that a cell that wants more gets MemoryError before the kernel
 * kills. It counts the memory that is there (anonymous pages in RAM), not what is reserved: libraries reserve
 * hundreds of megabytes that they never touch. */

/* `memory` is that of the sandbox in bytes, 0: unlimited. A part of it is for what is not counted here: the
 * supervisor, page tables, files in /dev/shm, pages of checkpoints that the process has changed since. */
void memory_limit_init(uint64_t memory);

/* While a cell runs it may hold less than the work around it (errors, tracebacks, figures). One that begins
 * with all memory taken, as after a MemoryError whose objects are still there, gets a little more, so that it
 * can look around and delete. */
void memory_limit_begin_cell(void);
void memory_limit_end_cell(void);

/* The most that memory_limit_has() ever grants, bytes; 0: unlimited. */
uint64_t memory_limit_most(void);

/* Returns whether nine tenths of what a cell may hold are taken, in a process that never held more than
 * `peak` bytes. */
bool memory_limit_is_nearly_taken(uint64_t peak);

/* Finds the bytes that the process holds. 0 or a negative errno. */
int memory_limit_held(uint64_t *ret);
