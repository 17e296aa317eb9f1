/* Values as the controller says them. */
#pragma once

#include "proto/wire.h"

/* Text or bytes; absent where it is neither, or NULL. */
static inline Text text_of_object(const msgpack_object *object)
{
    if (object && object->type == MSGPACK_OBJECT_STR)
        return (Text){object->via.str.ptr, object->via.str.size};
    if (object && object->type == MSGPACK_OBJECT_BIN)
        return (Text){object->via.bin.ptr, object->via.bin.size};
    return (Text){0};
}

/* As memcmp(), the shorter first of two that begin alike. */
static inline int text_compare(Text one, Text other)
{
    size_t n = MIN(one.size, other.size);
    int r = n > 0 ? memcmp(one.data, other.data, n) : 0;

    return r ? r : (one.size > other.size) - (one.size < other.size);
}
