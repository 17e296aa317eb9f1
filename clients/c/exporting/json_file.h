/* A JSON file, which takes its place as a whole. */
#pragma once

#include "proto/wire.h"

/* `packed` is one value; bytes in it are paths. 0, -ENOMEM, or -EPROTO with the problem. */
int json_file_write(const char *path, const Buf *packed, Problem *problem);
