/* Before it has a session: an interpreter gets its environment and imports what cells are likely to. */
#pragma once

#include "proto/wire.h"

/* Answers `prepare` with the message id `id`; both parts may be NULL. With the GIL. A negative errno when the
 * supervisor is gone, asks for what no environment can hold, or asks after the first cell. */
int prepare(uint64_t id, const msgpack_object_map *env, const msgpack_object_array *imports);
