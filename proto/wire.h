/* The wire: one message is one ZMTP frame (or one length-prefixed frame inside the guest) that holds the
 * msgpack array [version, kind, id, body]. `body` is a map with text keys.
 *
 * Reading is in three steps, each refusing more: wire_check bounds the bytes without unpacking them (depth,
 * nodes, lengths against bytes present, no ext, valid UTF-8, no duplicate keys); message_decode unpacks
 * with msgpack-c; body_decode (proto/fields.h) moves a body into a struct and names what is wrong with it. */
#pragma once

#include <msgpack.h>
#include <string.h>

#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/base/problem.h"
#include "proto/limits.h"

/* The message numbers. */
typedef enum MessageKind {
    MSG_NONE = 0,
#define MESSAGE(number, name, text, direction) MSG_##name = number,
#include "proto/messages.def"
#undef MESSAGE
} MessageKind;

/* "run" for MSG_RUN; "unknown" for a number not in the table. */
const char *message_name(unsigned kind);

/* Checks that `size` bytes are exactly one msgpack object within the limits. 0, or -EMSGSIZE (deeper, or more
 * nodes or keys than allowed), -ENOMEM (maps with many keys need 128 KB), -EBADMSG (anything else wrong). Map
 * keys are str or bin; two of the same bytes are the same key. Needs 2 KB of stack, and takes n log n time
 * whatever the bytes are. */
int wire_check(const void *bytes, size_t size);

typedef struct Text {
    const char *data; /* NULL when absent; not terminated */
    size_t size;
} Text;

/* A received message. The body points into the caller's bytes and into `zone`. */
typedef struct Message {
    MessageKind kind;
    uint64_t id;
    msgpack_object_map body;
    Text encoded; /* the body as it came */
    msgpack_zone *zone;
} Message;

#define MESSAGE_NULL ((Message){0})

/* Checks and unpacks a frame. `bytes` must outlive the message. A kind that is not in the table is let
 * through for the receiver to refuse. A failure fills `problem` with PROTOCOL_MISMATCH, TOO_LARGE,
 * BAD_REQUEST or INTERNAL; nothing is then left to free, and when the envelope could be read, ret->kind and
 * ret->id are set all the same so that the error can be answered. */
int message_decode(Message *ret, const void *bytes, size_t size, Problem *problem);
void message_deinit(Message *message);

/* The kind and the id, without memory of an allocator. 0, or -EBADMSG when they cannot be read. */
int message_peek(const void *bytes, size_t size, MessageKind *ret_kind, uint64_t *ret_id);

/* The value of `key` in a map, or NULL. */
const msgpack_object *map_find(const msgpack_object_map *map, const char *key);

/* Writing: a msgpack_packer over a Buf. Writer functions cannot fail one by one: the first failure sticks
 * and writer_finish reports it, with the buffer back at its old size. Nothing may be consumed from the
 * buffer, nor the Writer moved, before that. Keys and text are written as str, bytes as bin. */
typedef struct Writer {
    Buf *buf;
    size_t mark; /* size of buf at the start */
    msgpack_packer packer;
    int error;
} Writer;

/* Starts [version, kind, id, {fields...}] at the end of buf; write `fields` pairs, then finish. Whoever has
 * the body some other way writes the envelope alone, and then the body. */
void writer_message(Writer *w, Buf *buf, MessageKind kind, uint64_t id, size_t fields);
void write_envelope(Writer *w, MessageKind kind, uint64_t id);
void writer_init(Writer *w, Buf *buf); /* a bare value, without an envelope */
int writer_finish(Writer *w);          /* 0, -ENOBUFS, -ENOMEM or what writer_fail() was told */

void write_map(Writer *w, size_t pairs);
void write_array(Writer *w, size_t items);
void write_key(Writer *w, const char *key);
void write_nil(Writer *w);
void write_bool(Writer *w, bool value);
void write_uint(Writer *w, uint64_t value);
void write_int(Writer *w, int64_t value);
void write_double(Writer *w, double value);
void write_text(Writer *w, const char *text); /* nil when NULL; bytes that are not UTF-8 become U+FFFD */
void write_text_n(Writer *w, const char *text, size_t size);
void write_bytes(Writer *w, const void *bytes, size_t size);
void write_object(Writer *w, const msgpack_object *object); /* nil when NULL */

void write_encoded(Writer *w, const Buf *encoded); /* one or more values that are encoded already */

/* The first error holds: 0 is none. */
void writer_fail(Writer *w, int error);

/* Text if the bytes are valid UTF-8, bytes otherwise: file names. */
void write_name(Writer *w, const char *name);

/* Copies `size` bytes to `buf` as valid UTF-8; what does not decode becomes U+FFFD, just as Python's
 * decode("utf-8", "replace") has it. 0, or -ENOBUFS or -ENOMEM with a part copied. */
int utf8_append_replaced(Buf *buf, const void *bytes, size_t size);
bool utf8_valid(const void *bytes, size_t size);

/* A terminated copy, up to a NUL if there is one; NULL when out of memory or absent. */
char *text_dup(Text text);
bool text_equal(Text text, const char *other);
/* 1 to LIMIT_SESSION_NAME of A-Z a-z 0-9 . _ -, beginning with a letter or digit: names of sessions,
 * branches and checkpoints. */
bool name_valid(Text text);

/* Absent when NULL. */
static inline Text text_of(const char *terminated)
{
    return (Text){terminated, terminated ? strlen(terminated) : 0};
}

/* "512m" → 536870912. Suffixes k, m, g, t (powers of 1024), case ignored, an optional "b" or "ib" after
 * them. -EINVAL when it is not a size. */
int size_parse(const char *text, size_t n, uint64_t *ret);
