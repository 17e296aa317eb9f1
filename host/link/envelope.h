/* Messages around a body that is encoded already: the host's addition to proto/wire.h. */
#pragma once

#include "proto/wire.h"

/* Appends [version, kind, id, body], where the body is encoded. 0, -ENOBUFS or -ENOMEM. */
int envelope_write(Buf *ret, MessageKind kind, uint64_t id, Text body);

/* The same around a body that was received. */
int envelope_wrap(Buf *ret, MessageKind kind, uint64_t id, const msgpack_object_map *body);

static inline Text encoded_text(const Buf *buf)
{
    return (Text){(const char *)buf_head(buf), buf->size};
}
