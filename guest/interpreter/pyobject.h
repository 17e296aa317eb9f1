/* msgpack to plain Python values: the way back of pyvalue.h. */
#pragma once

#include "guest/interpreter/pyref.h"

/* The value that `bytes` hold, which are checked before anything is made of them. NULL with a reason, and
 * perhaps an exception. */
PyObject *object_decode(const void *bytes, size_t size, const char **ret_why);
