#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "proto/wire.h"

#define ENVELOPE_PARTS 4u

/* Most messages fit in one chunk of the zone; larger ones make it grow. */
#define ZONE_CHUNK 4096u

/* The envelope as far as it can be read without knowing that the rest is sound. */
typedef struct Envelope {
    uint64_t version, kind, id;
    unsigned readable;   /* of the three, in that order */
    const uint8_t *body; /* of the message, behind them */
} Envelope;

static bool read_uint(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    uint8_t head;
    size_t n;
    uint64_t value = 0;

    if (*at == end)
        return false;
    head = *(*at)++;
    if (head < 0x80) {
        *ret = head;
        return true;
    }
    if (head < 0xcc || head > 0xcf)
        return false;
    n = (size_t)1 << (head - 0xcc);
    if ((size_t)(end - *at) < n)
        return false;
    while (n-- > 0)
        value = value << 8 | *(*at)++;
    *ret = value;
    return true;
}

/* Writers of other languages need not choose the smallest encoding. */
static bool skip_array_head(const uint8_t **at, const uint8_t *end)
{
    size_t n = (size_t)(end - *at);
    const uint8_t *p = *at;

    if (n >= 1 && (p[0] & 0xf0) == 0x90)
        *at += 1;
    else if (n >= 3 && p[0] == 0xdc)
        *at += 3;
    else if (n >= 5 && p[0] == 0xdd)
        *at += 5;
    else
        return false;
    return true;
}

static Envelope read_envelope(const uint8_t *at, size_t size)
{
    Envelope envelope = {0};
    const uint8_t *end;

    if (size == 0)
        return envelope;
    end = at + size;
    if (!skip_array_head(&at, end) || !read_uint(&at, end, &envelope.version))
        return envelope;
    envelope.readable = 1;
    if (!read_uint(&at, end, &envelope.kind))
        return envelope;
    envelope.readable = 2;
    if (read_uint(&at, end, &envelope.id))
        envelope.readable = 3;
    envelope.body = at;
    return envelope;
}

static int refuse(Problem *problem, int r)
{
    switch (r) {
    case -EMSGSIZE:
        return problem_set(problem, ERR_TOO_LARGE,
                           "the message nests deeper than %u, or has more than %u values or %u keys",
                           LIMIT_DEPTH, LIMIT_NODES, LIMIT_KEYS);
    case -ENOMEM:
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "the message is not sound msgpack: %s",
                           "cut off, bytes after its end, an ext type, a str that is not UTF-8, "
                           "a map key that is neither str nor bin, or a key twice");
    }
}

/* The body of a frame that wire_check let through and whose envelope is readable. */
static int unpack_body(Message *message, const void *bytes, size_t size, Problem *problem)
{
    msgpack_object object;
    size_t offset = 0;
    msgpack_unpack_return r;

    message->zone = msgpack_zone_new(ZONE_CHUNK);
    if (!message->zone)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = msgpack_unpack(bytes, size, &offset, message->zone, &object);
    if (r == MSGPACK_UNPACK_NOMEM_ERROR)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (r != MSGPACK_UNPACK_SUCCESS || object.type != MSGPACK_OBJECT_ARRAY ||
        object.via.array.size != ENVELOPE_PARTS || object.via.array.ptr[3].type != MSGPACK_OBJECT_MAP)
        return problem_set(problem, ERR_BAD_REQUEST, "a message is the array [version, kind, id, map]");
    message->body = object.via.array.ptr[3].via.map;
    return 0;
}

int message_decode(Message *ret, const void *bytes, size_t size, Problem *problem)
{
    Envelope envelope = read_envelope(bytes, size);
    int r;

    *ret = MESSAGE_NULL;
    if (envelope.readable >= 2 && envelope.kind <= INT32_MAX)
        ret->kind = (MessageKind)envelope.kind;
    if (envelope.readable >= 3)
        ret->id = envelope.id;
    if (envelope.readable >= 1 && envelope.version != PROTOCOL_VERSION)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the message is of protocol version %" PRIu64
                           ", this side speaks version %d; upgrade the "
                           "older one",
                           envelope.version, PROTOCOL_VERSION);
    r = wire_check(bytes, size);
    if (r < 0)
        return refuse(problem, r);
    if (envelope.readable < 3 || envelope.kind > INT32_MAX)
        return problem_set(problem, ERR_BAD_REQUEST, "a message is the array [version, kind, id, map]");
    r = unpack_body(ret, bytes, size, problem);
    if (r < 0) {
        message_deinit(ret);
        return r;
    }
    ret->encoded =
        (Text){(const char *)envelope.body, size - (size_t)(envelope.body - (const uint8_t *)bytes)};
    return 0;
}

int message_peek(const void *bytes, size_t size, MessageKind *ret_kind, uint64_t *ret_id)
{
    Envelope envelope = read_envelope(bytes, size);

    if (envelope.readable < 3 || envelope.version != PROTOCOL_VERSION || envelope.kind > INT32_MAX)
        return -EBADMSG;
    *ret_kind = (MessageKind)envelope.kind;
    *ret_id = envelope.id;
    return 0;
}

void message_deinit(Message *message)
{
    if (message->zone)
        msgpack_zone_free(message->zone);
    message->zone = NULL;
    message->body = (msgpack_object_map){0};
}

const msgpack_object *map_find(const msgpack_object_map *map, const char *key)
{
    size_t n = strlen(key);

    for (uint32_t i = 0; i < map->size; i++) {
        const msgpack_object *k = &map->ptr[i].key;
        if (k->type == MSGPACK_OBJECT_STR && k->via.str.size == n && memcmp(k->via.str.ptr, key, n) == 0)
            return &map->ptr[i].val;
    }
    return NULL;
}

const char *message_name(unsigned kind)
{
    switch (kind) {
#define MESSAGE(number, name, text, direction)                                                               \
    case number:                                                                                             \
        return text;
#include "proto/messages.def"
#undef MESSAGE
    default:
        return "unknown";
    }
}
