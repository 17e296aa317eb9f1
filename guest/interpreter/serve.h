/* Messages of the supervisor, one after the other. */
#pragma once

#include <signal.h>

#include "guest/channel.h"
#include "guest/interpreter/pyref.h"
#include "proto/schema.h"

/* Messages that arrive on the channel. One thread at a time takes from it; none needs the GIL for that. */

/* Blocking: the next message, valid until the next call, and the descriptors that came with it, which are the
 * caller's. 0 or a negative errno. */
int inbox_next(ChannelFrame *ret, int fds[CHANNEL_FDS]);

/* The next message, which has no use for descriptors; while nothing is there, with this mask of signals.
 * -EINTR after a signal, -ECANCELED when the descriptor `wake` (-1: none) can be read. */
int inbox_wait(ChannelFrame *ret, int wake, const sigset_t *mask);

/* So that the next message is taken without memory of an allocator, if it is a short one. */
void inbox_reserve(void);

/* For a new channel. */
void inbox_clear(void);

/* Between two cells: what they have left to their event loop goes on until the next message comes. */

/* function(channel): it returns once the channel can be read. None is called before one is set. */
void rest_by(PyObject *function);

void rest(void);

/* Before its first cell: an interpreter gets its environment, imports what cells are likely to, goes where
 * they are to run, and takes up their language. Before any cell: it gets more variables. */

/* Answers `prepare` with the message id `id`; any of it may be absent. With the GIL. A negative errno when
 * the supervisor is gone, asks for what no environment can hold, or asks after the first cell for what is
 * done before it. */
int prepare(uint64_t id, const MsgPrepare *asked);

/* The loop: one message of the supervisor after the other, each answered before the next is read. */

/* With the GIL, which is released while there is nothing to do, so that threads of earlier cells go on.
 * Returns when the supervisor is gone (-EPIPE) or speaks nonsense: a negative errno. */
int serve(void);
