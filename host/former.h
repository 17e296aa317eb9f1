/* Former branches of a sandbox: their names, for the checkpoints of them that are still kept. */
#pragma once

#include "host/sandbox.h"

/* The oldest is forgotten when there are more than there can be checkpoints. */
void former_add(Sandbox *sandbox, uint64_t branch, const char *name);
void former_deinit(Sandbox *sandbox);
