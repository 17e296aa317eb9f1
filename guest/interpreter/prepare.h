/* Before its first cell: an interpreter gets its environment, imports what cells are likely to, goes where
 * they are to run, and takes up their language. Before any cell: it gets more variables. */
#pragma once

#include "guest/channel.h"

/* Answers `prepare` with the message id `id`; any of it may be absent. With the GIL. A negative errno when
 * the supervisor is gone, asks for what no environment can hold, or asks after the first cell for what is
 * done before it. */
int prepare(uint64_t id, const MsgPrepare *asked);
