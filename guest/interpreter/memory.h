/* Memory of the process: how much there may be, where it lies, and who goes first when there is none left. */
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

/* Returns whether memory has been refused since there was enough. */
bool memory_limit_is_scarce(void);

/* The most that memory_limit_has() ever grants, bytes; 0: unlimited. */
uint64_t memory_limit_most(void);

/* Returns whether nine tenths of what a cell may hold are taken, in a process that never held more than
 * `peak` bytes. */
bool memory_limit_is_nearly_taken(uint64_t peak);

/* The order in which the kernel ends processes when the memory of the sandbox runs out: children of a cell
 * first, then an automatic checkpoint that was made beside none, then this process, and other checkpoints
 * last. All of it as far as the kernel lets this user say so (/proc/self/oom_score_adj, in thousandths of the
 * sandbox's memory). */

/* Once, before any other: `memory` is that of the sandbox, bytes, 0: unlimited. Makes this the process that
 * runs cells. */
void oom_score_init(uint64_t memory);

/* Marks this process as one that runs cells (again). */
void oom_score_live(void);

/* Marks this process as a checkpoint. One that `ends_first` goes before the process it was copied from, whose
 * memory it mostly shares, and which may then go on; but not when that holds more than an allocator grants,
 * since its memory would run out next. */
void oom_score_checkpoint(bool ends_first);

/* Marks this process as one of the cell that made it. Also between vfork() and exec. */
void oom_score_child(void);
