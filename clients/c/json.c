#include "clients/c/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/wire.h"

static int put(Buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

static int write_float(Buf *buf, double value)
{
    char text[40];

    if (!isfinite(value))
        return put(buf, "null");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* The locale of the program may have another decimal point. */
    for (char *c = text; *c; c++)
        if (!strchr("+-0123456789e", *c))
            *c = '.';
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    return put(buf, text);
}

static int write_integer(Buf *buf, const msgpack_object *object)
{
    char text[24];

    if (object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        snprintf(text, sizeof(text), "%" PRId64, object->via.i64);
    else
        snprintf(text, sizeof(text), "%" PRIu64, object->via.u64);
    return put(buf, text);
}

/* Valid UTF-8 within a JSON string, without the quotes. */
static int write_escaped(Buf *buf, const char *text, size_t size)
{
    static const char named[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
    size_t plain = 0;
    int r = 0;

    for (size_t i = 0; i < size && !r; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        if (named[c])
            snprintf(escape, sizeof(escape), "\\%c", named[c]);
        else
            snprintf(escape, sizeof(escape), "\\u%04x", c);
        r = buf_append(buf, text + plain, i - plain);
        if (!r)
            r = put(buf, escape);
        plain = i + 1;
    }
    return r ? r : buf_append(buf, text + plain, size - plain);
}

static int write_string(Buf *buf, const char *text, size_t size)
{
    _cleanup_(buf_deinit) Buf replaced = BUF_NULL;
    int r = put(buf, "\"");

    if (!r && utf8_valid(text, size))
        r = write_escaped(buf, text, size);
    else if (!r) {
        r = utf8_append_replaced(&replaced, text, size);
        if (!r)
            r = write_escaped(buf, (const char *)buf_head(&replaced), replaced.size);
    }
    return r ? r : put(buf, "\"");
}

/* The length of the UTF-8 character at the start of bytes, 0 when there is none. */
static size_t character(const char *bytes, size_t size)
{
    unsigned char c = (unsigned char)bytes[0];
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    return n <= size && utf8_valid(bytes, n) ? n : 0;
}

static int write_path(Buf *buf, const char *bytes, size_t size)
{
    int r = put(buf, "\"");

    for (size_t i = 0, n; i < size && !r; i += MAX(n, (size_t)1)) {
        char escape[8];

        n = character(bytes + i, size - i);
        snprintf(escape, sizeof(escape), "\\udc%02x", (unsigned char)bytes[i]);
        r = n ? write_escaped(buf, bytes + i, n) : put(buf, escape);
    }
    return r ? r : put(buf, "\"");
}

static int write_base64(Buf *buf, const char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = (size + 2) / 3 * 4 + 2;
    uint8_t *out = buf_reserve(buf, length);

    if (!out)
        return -ENOMEM;
    *out++ = '"';
    for (size_t i = 0; i < size; i += 3, out += 4) {
        size_t left = size - i;
        unsigned triple = (unsigned)(uint8_t)bytes[i] << 16;

        triple |= left > 1 ? (unsigned)(uint8_t)bytes[i + 1] << 8 : 0;
        triple |= left > 2 ? (unsigned)(uint8_t)bytes[i + 2] : 0;
        out[0] = (uint8_t)digits[triple >> 18];
        out[1] = (uint8_t)digits[triple >> 12 & 63];
        out[2] = left > 1 ? (uint8_t)digits[triple >> 6 & 63] : '=';
        out[3] = left > 2 ? (uint8_t)digits[triple & 63] : '=';
    }
    *out = '"';
    buf_commit(buf, length);
    return 0;
}

static int separate(Buf *buf, uint32_t i)
{
    return put(buf, i > 0 ? ", " : "");
}

static int write_items(Buf *buf, const msgpack_object_array *array, JsonBytes bytes)
{
    int r = put(buf, "[");

    for (uint32_t i = 0; i < array->size && !r; i++) {
        r = separate(buf, i);
        if (!r)
            r = json_write(buf, &array->ptr[i], bytes);
    }
    return r ? r : put(buf, "]");
}

/* JSON has no other keys than strings: a number gets quotes. */
static int write_key_of(Buf *buf, const msgpack_object *key)
{
    _cleanup_(buf_deinit) Buf text = BUF_NULL;
    int r;

    if (key->type == MSGPACK_OBJECT_STR || key->type == MSGPACK_OBJECT_BIN)
        return json_write(buf, key, JSON_PATH);
    r = json_write(&text, key, JSON_PATH);
    return r ? r : write_string(buf, (const char *)buf_head(&text), text.size);
}

static int write_pairs(Buf *buf, const msgpack_object_map *map, JsonBytes bytes)
{
    int r = put(buf, "{");

    for (uint32_t i = 0; i < map->size && !r; i++) {
        r = separate(buf, i);
        if (!r)
            r = write_key_of(buf, &map->ptr[i].key);
        if (!r)
            r = put(buf, ": ");
        if (!r)
            r = json_write(buf, &map->ptr[i].val, bytes);
    }
    return r ? r : put(buf, "}");
}

int json_write(Buf *buf, const msgpack_object *object, JsonBytes bytes)
{
    switch (object->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        return put(buf, object->via.boolean ? "true" : "false");
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return write_integer(buf, object);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return write_float(buf, object->via.f64);
    case MSGPACK_OBJECT_STR:
        return write_string(buf, object->via.str.ptr, object->via.str.size);
    case MSGPACK_OBJECT_BIN:
        return (bytes == JSON_PATH ? write_path : write_base64)(buf, object->via.bin.ptr,
                                                                object->via.bin.size);
    case MSGPACK_OBJECT_ARRAY:
        return write_items(buf, &object->via.array, bytes);
    case MSGPACK_OBJECT_MAP:
        return write_pairs(buf, &object->via.map, bytes);
    default:
        return put(buf, "null");
    }
}
