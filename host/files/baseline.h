/* Baseline: what an index knows of reported files, as bytes that another process makes an index of again, so
 * that a file is reported once whatever process looks. */
#pragma once

#include "host/files/index.h"
#include "proto/wire.h"

/* Files in one array, which keeps it within the limits of a message. */
#define BASELINE_FILES 1000u

/* Calls `put` with encoded arrays of files: those noted since the last time, or `all`. Stops when it returns
 * a negative errno, and returns that; nothing is noted any more after success. */
int baseline_each(Index *index, bool all, int (*put)(void *userdata, const Buf *files), void *userdata);

/* Adds what was written to an index. What makes no sense is left out: the file counts as new then. */
void baseline_read(Index *index, const msgpack_object_array *files);
