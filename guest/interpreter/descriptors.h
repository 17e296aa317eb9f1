/* The interpreter's own descriptors, kept out of the reach of cells that close or replace 0, 1, 2 and 3. */
#pragma once

#include "guest/channel.h"

/* Duplicates 0, 1, 2 and the channel to high numbers, close-on-exec, and closes CHANNEL_FD. A negative errno.
 */
int descriptors_init(void);

/* The private duplicate of 1 or 2; the number never changes. */
int descriptors_stream(int fd);
int descriptors_channel(void);

/* Makes 0, 1 and 2 what they should be, whatever a cell has done to them. */
void descriptors_restore(void);

/* From now on 1 and 2 are these; takes the descriptors. Does nothing with -1. */
void descriptors_replace(const int fds[CHANNEL_FDS]);
