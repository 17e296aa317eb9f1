/* The record of a call, from the wire to LimpetResult. */
#pragma once

#include "clients/c/client.h"

/* Takes over *reply, of which `record` is a part. -EPROTO with the problem, or -ENOMEM. */
int result_new(LimpetResult **ret, Reply *reply, const msgpack_object_map *record, Problem *problem);

/* The published files and the others of a record, in the memory of the arena. */
int artifacts_read(LimpetResult *ret, const msgpack_object_map *paths, const msgpack_object_map *infos,
                   Arena *arena, Problem *problem);
int skipped_read(LimpetResult *ret, const msgpack_object_map *reasons, Arena *arena, Problem *problem);

/* One display, in the memory of the arena. */
int display_read(LimpetDisplay *ret, bool *ret_update, const msgpack_object_map *body, Arena *arena,
                 Problem *problem);
