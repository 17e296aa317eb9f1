/* The record of a call, from the wire to LimpetResult. */
#pragma once

#include "clients/c/client.h"

/* Takes over *reply, of which `record` is a part. -EPROTO with the problem, or -ENOMEM. */
int result_new(LimpetResult **ret, Reply *reply, const msgpack_object_map *record, Problem *problem);

/* The memory of a result. */
Arena result_arena(LimpetResult *result);

/* Makes its JSON say what its artifacts and skipped files have become. 0 or -ENOMEM. */
int result_retell(LimpetResult *result);

/* Copies its artifacts to this machine where it comes from another one. 0, -EPROTO with the client's problem,
 * or -ENOMEM.
 */
int result_bring(LimpetClient *client, LimpetResult *result);

/* Writes a published file to a descriptor, and checks that it is what the call left. 0, or as client_call().
 */
int artifact_fetch(LimpetClient *client, const LimpetResult *result, const LimpetArtifact *artifact, int fd);

/* The published files and the others of a record, in the memory of the arena. */
int artifacts_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem);
int skipped_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem);

/* Reads one display into the memory of the arena. */
void display_read(LimpetDisplay *ret, const MsgDisplay *said, Arena *arena);
