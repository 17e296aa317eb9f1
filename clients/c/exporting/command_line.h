/* A command as a cell of a notebook has it. */
#pragma once

#include "proto/wire.h"

/* "!LINE", or "%%bash" and the lines, of a program as `exec` has it; to be freed. NULL when out of memory. */
char *command_line(const msgpack_object_map *program);
