/* The interpreter's own descriptors, kept out of the reach of cells that close or replace 0, 1, 2 and 3. */
#pragma once

#include "guest/channel.h"

/* Duplicates 0, 1, 2 and the channel to high numbers, close-on-exec, and closes CHANNEL_FD. A negative errno.
 */
int descriptors_init(void);

/* A duplicate out of the way of daemon code, which closes everything below 256, where the limit allows it;
 * close-on-exec. A negative errno. */
int descriptors_duplicate(int fd);

/* The private duplicate of 1 or 2; the number never changes. */
int descriptors_stream(int fd);
int descriptors_channel(void);

/* Makes 0, 1 and 2 what they should be, whatever a cell has done to them. */
void descriptors_restore(void);

/* From now on 1 and 2 are these; takes the descriptors. Does nothing with -1. */
void descriptors_replace(const int fds[2]);

/* Until they are restored, what is written to 1 and 2 goes nowhere. */
void descriptors_mute(void);

/* Returns whether the descriptor is one of 0, 1, 2 and the private ones. */
bool descriptors_is_own(int fd);

/* 1 or 2 when that is the file behind it, otherwise 0. */
int descriptors_stream_of(dev_t device, ino_t inode);

/* For a copy that is to hold nothing of what it was copied from: 1 and 2 lead nowhere, and `channel`, which
 * is taken, is the channel. */
void descriptors_detach(int channel);

/* A few descriptors are kept for the work around a checkpoint, however many cells have open: keeping takes
 * them, freeing makes room for others. Both may be called again. */
void descriptors_spare_keep(void);
void descriptors_spare_free(void);

/* The channel, 1 and 2 are the first three; takes those. */
void descriptors_attach(const int fds[CHANNEL_FDS]);
