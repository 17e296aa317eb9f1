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

/* Reads one display into the memory of the arena. */
void display_read(LimpetDisplay *ret, const MsgDisplay *said, Arena *arena);

/* Reads what a record says of variables; in state.c. */
const LimpetChanged *changed_read(const MsgChanged *said, Arena *arena);
