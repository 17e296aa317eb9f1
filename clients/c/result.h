/* The record of a call, from the wire to LimpetResult. */
#pragma once

#include "clients/c/client.h"

/* Takes over *reply, of which `record` is a part. -EPROTO with the problem, or -ENOMEM. */
int result_new(LimpetResult **ret, Reply *reply, const msgpack_object_map *record, Problem *problem);

/* The published files and the others of a record, in the memory of the arena. */
int artifacts_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem);
int skipped_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem);

/* Reads one display into the memory of the arena. */
void display_read(LimpetDisplay *ret, const MsgDisplay *said, Arena *arena);
