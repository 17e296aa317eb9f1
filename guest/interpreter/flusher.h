/* The thread that flushes a moment after something was written, so that output streams while a cell
 * runs. It is started by the first flusher_arm(), sleeps while nothing is pending, and takes no signals. */
#pragma once

#define FLUSH_DELAY_MS 40u

/* `flush` is called in FLUSH_DELAY_MS, on that thread; does nothing when that is coming. */
void flusher_arm(void (*flush)(void));

/* Ends the thread; the next flusher_arm() starts another. For the moment before a fork: a second thread there
 * is a hazard, and one that Python warns its users of. */
void flusher_stop(void);

/* In the child of a fork, where no thread but the caller lives. */
void flusher_after_fork(void);
