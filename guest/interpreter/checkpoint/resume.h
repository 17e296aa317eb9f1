/* From a fork of a frozen copy to an interpreter that runs cells. */
#pragma once

#include "guest/interpreter/checkpoint/frozen_main.h"
#include "guest/interpreter/pyref.h"

/* Takes the descriptors of `restore` and says `ready`. 0 or a negative errno. */
int resume(CheckpointInfo *copied, const Restore *restore);
