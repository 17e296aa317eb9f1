/* Messages that arrive on the channel. One thread at a time takes from it; none needs the GIL for that. */
#pragma once

#include <signal.h>

#include "guest/channel.h"

/* Blocking: the next message, valid until the next call, and the descriptors that came with it, which are the
 * caller's. 0 or a negative errno. */
int inbox_next(ChannelFrame *ret, int fds[CHANNEL_FDS]);

/* The next message, which has no use for descriptors; while nothing is there, with this mask of signals.
 * -EINTR after a signal, -ECANCELED when the descriptor `wake` (-1: none) can be read. */
int inbox_wait(ChannelFrame *ret, int wake, const sigset_t *mask);

/* So that the next message is taken without memory of an allocator, if it is a short one. */
void inbox_reserve(void);

/* Returns whether nothing of a message has been read yet, so that the channel tells when the next one
 * comes. */
bool inbox_is_empty(void);

/* For a new channel. */
void inbox_clear(void);
