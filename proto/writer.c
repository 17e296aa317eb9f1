#include <errno.h>
#include <string.h>

#include "proto/wire.h"

static int append(void *data, const char *bytes, size_t size)
{
    Writer *w = data;

    if (w->error == 0)
        w->error = buf_append(w->buf, bytes, size);
    return w->error;
}

void writer_init(Writer *w, Buf *buf)
{
    *w = (Writer){.buf = buf, .mark = buf->size};
    msgpack_packer_init(&w->packer, w, append);
}

void write_envelope(Writer *w, MessageKind kind, uint64_t id)
{
    write_array(w, 4);
    write_uint(w, PROTOCOL_VERSION);
    write_uint(w, kind);
    write_uint(w, id);
}

void writer_message(Writer *w, Buf *buf, MessageKind kind, uint64_t id, size_t fields)
{
    writer_init(w, buf);
    write_envelope(w, kind, id);
    write_map(w, fields);
}

int writer_finish(Writer *w)
{
    if (w->error < 0)
        w->buf->size = w->mark;
    return w->error;
}

void writer_fail(Writer *w, int error)
{
    if (w->error == 0)
        w->error = error;
}

void write_map(Writer *w, size_t pairs)
{
    msgpack_pack_map(&w->packer, pairs);
}

void write_array(Writer *w, size_t items)
{
    msgpack_pack_array(&w->packer, items);
}

void write_key(Writer *w, const char *key)
{
    msgpack_pack_str_with_body(&w->packer, key, strlen(key));
}

void write_nil(Writer *w)
{
    msgpack_pack_nil(&w->packer);
}

void write_bool(Writer *w, bool value)
{
    if (value)
        msgpack_pack_true(&w->packer);
    else
        msgpack_pack_false(&w->packer);
}

void write_uint(Writer *w, uint64_t value)
{
    msgpack_pack_uint64(&w->packer, value);
}

void write_int(Writer *w, int64_t value)
{
    msgpack_pack_int64(&w->packer, value);
}

void write_double(Writer *w, double value)
{
    msgpack_pack_double(&w->packer, value);
}

void write_text(Writer *w, const char *text)
{
    if (text)
        write_text_n(w, text, strlen(text));
    else
        write_nil(w);
}

void write_text_n(Writer *w, const char *text, size_t size)
{
    Buf replaced = BUF_NULL;

    if (utf8_valid(text, size)) {
        msgpack_pack_str_with_body(&w->packer, text, size);
        return;
    }
    int r = utf8_append_replaced(&replaced, text, size);
    if (r == 0)
        msgpack_pack_str_with_body(&w->packer, buf_head(&replaced), replaced.size);
    else
        writer_fail(w, r);
    buf_deinit(&replaced);
}

void write_bytes(Writer *w, const void *bytes, size_t size)
{
    msgpack_pack_bin_with_body(&w->packer, bytes, size);
}

void write_object(Writer *w, const msgpack_object *object)
{
    if (object)
        msgpack_pack_object(&w->packer, *object);
    else
        write_nil(w);
}

void write_encoded(Writer *w, const Buf *encoded)
{
    append(w, (const char *)buf_head(encoded), encoded->size);
}

void write_name(Writer *w, const char *name)
{
    size_t size = strlen(name);

    if (utf8_valid(name, size))
        msgpack_pack_str_with_body(&w->packer, name, size);
    else
        write_bytes(w, name, size);
}
