/* Messages around a body that is encoded already: the host's addition to proto/wire.h. */
#pragma once

#include "proto/wire.h"

static inline int envelope_head(Buf *ret, MessageKind kind, uint64_t id)
{
    Writer w;

    writer_init(&w, ret);
    write_envelope(&w, kind, id);
    return writer_finish(&w);
}

/* Appends [version, kind, id, body], where the body is encoded. 0, -ENOBUFS or -ENOMEM. */
static inline int envelope_write(Buf *ret, MessageKind kind, uint64_t id, Text body)
{
    int r = envelope_head(ret, kind, id);

    return r < 0 ? r : buf_append(ret, body.data, body.size);
}

/* The same around a body that was received. */
static inline int envelope_wrap(Buf *ret, MessageKind kind, uint64_t id, const msgpack_object_map *body)
{
    int r = envelope_head(ret, kind, id);
    Writer w;

    if (r < 0)
        return r;
    writer_init(&w, ret);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *body});
    return writer_finish(&w);
}

static inline Text encoded_text(const Buf *buf)
{
    return (Text){(const char *)buf_head(buf), buf->size};
}
