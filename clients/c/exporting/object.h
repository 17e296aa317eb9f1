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
