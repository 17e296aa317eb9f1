#include "host/link/envelope.h"

static int write_head(Buf *ret, MessageKind kind, uint64_t id)
{
    Writer w;

    writer_init(&w, ret);
    write_envelope(&w, kind, id);
    return writer_finish(&w);
}

int envelope_write(Buf *ret, MessageKind kind, uint64_t id, Text body)
{
    int r = write_head(ret, kind, id);

    return r < 0 ? r : buf_append(ret, body.data, body.size);
}

int envelope_wrap(Buf *ret, MessageKind kind, uint64_t id, const msgpack_object_map *body)
{
    int r = write_head(ret, kind, id);
    Writer w;

    if (r < 0)
        return r;
    writer_init(&w, ret);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *body});
    return writer_finish(&w);
}
