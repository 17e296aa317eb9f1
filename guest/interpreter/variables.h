/* The variables on their way to a directory of the sandbox and back; limpet_saving has the work of it. */
#pragma once

#include "guest/channel.h"
#include "proto/schema.h"

/* Answers `save` or `load` with the message id `id`. With the GIL. A negative errno when the supervisor is
 * gone. */
int variables_move(MessageKind kind, uint64_t id, const MsgSaveCell *asked);
