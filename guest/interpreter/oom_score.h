/* The order in which the kernel ends processes when the memory of the sandbox runs out: children of a cell
 * first, then an automatic checkpoint that was made beside none, then this process, and other checkpoints
 * last. All of it as far as the kernel lets this user say so (/proc/self/oom_score_adj, in thousandths of the
 * sandbox's memory). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
