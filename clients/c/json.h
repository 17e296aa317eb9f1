/* msgpack to JSON text. Libraries refuse what we need: lone surrogates for the bytes of file names. */
#pragma once

#include <msgpack.h>

#include "proto/base/buf.h"

/* Form of bin values. As a key of a map bin is always JSON_PATH. */
typedef enum JsonBytes {
    JSON_BASE64,
    JSON_PATH, /* text; each byte 0xNN that is not UTF-8 as \udcNN, Python's surrogateescape */
} JsonBytes;

/* Appends one line of JSON in UTF-8, with ", " and ": " as Python writes it. NaN and the infinities become
 * null; numbers keep their value exactly, and floats are told from integers by a point or an exponent. Text
 * that is not UTF-8 has U+FFFD in place of what does not decode. 0, or -ENOBUFS or -ENOMEM with a part
 * appended. */
int json_write(Buf *buf, const msgpack_object *object, JsonBytes bytes);
