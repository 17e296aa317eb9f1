#include "proto/zmtp.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#define GREETING_SIZE  64u
#define VERSION_OFFSET 10u
#define MECHANISM_SIZE 20u

#define FLAG_MORE    0x01u
#define FLAG_LONG    0x02u
#define FLAG_COMMAND 0x04u

#define SHORT_HEADER 2u
#define LONG_HEADER  9u

/* READY of libzmq is 41 bytes and what an application adds to it, PING at most 23. */
#define COMMAND_MAX  1024u
#define PING_CONTEXT 16u

/* signature, version 3.0, mechanism NULL, as-server 0, filler */
static const uint8_t greeting[GREETING_SIZE] = {0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};

/* By role; both types are six letters. */
#define READY(type) "\x04\x29\5READY\13Socket-Type\0\0\0\6" type "\10Identity\0\0\0\0"
#define READY_SIZE  (2u + 0x29u)
static const char *const readies[] = {[ZMTP_DEALER] = READY("DEALER"), [ZMTP_ROUTER] = READY("ROUTER")};
static const char *const peer_types[] = {[ZMTP_DEALER] = "ROUTER", [ZMTP_ROUTER] = "DEALER"};
static_assert(sizeof(READY("DEALER")) - 1 == READY_SIZE && sizeof(READY("ROUTER")) - 1 == READY_SIZE,
              "the length byte of READY");

typedef struct Bytes {
    const uint8_t *data;
    size_t size;
} Bytes;

static bool take_bytes(Bytes *from, size_t n, Bytes *ret)
{
    if (n > from->size)
        return false;
    *ret = (Bytes){from->data, n};
    from->data += n;
    from->size -= n;
    return true;
}

/* A run of bytes behind its length, which takes `length_bytes`, big endian. */
static bool take_counted(Bytes *from, size_t length_bytes, Bytes *ret)
{
    Bytes length;
    uint32_t n = 0;

    if (!take_bytes(from, length_bytes, &length))
        return false;
    for (size_t i = 0; i < length.size; i++)
        n = n << 8 | length.data[i];
    return take_bytes(from, n, ret);
}

static bool bytes_equal(Bytes bytes, const char *text)
{
    return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

int zmtp_init(Zmtp *zmtp, ZmtpRole role, size_t max_frame, Buf *out)
{
    *zmtp = (Zmtp){.state = ZMTP_GREETING, .role = role, .max_frame = max_frame};
    return buf_append(out, greeting, sizeof(greeting));
}

/* Each byte is looked at as soon as it is there: a peer of another kind may never send 64 of them. */
static bool greeting_acceptable(const uint8_t *bytes, size_t n)
{
    if (n > 0 && bytes[0] != 0xff)
        return false;
    if (n > 9 && bytes[9] != 0x7f)
        return false;
    if (n > VERSION_OFFSET && bytes[VERSION_OFFSET] < 3)
        return false;
    return n < GREETING_SIZE || memcmp(bytes + 12, greeting + 12, MECHANISM_SIZE) == 0;
}

static int take_greeting(Zmtp *zmtp, Buf *in, Buf *out)
{
    const uint8_t *bytes = buf_head(in);
    int r;

    if (!bytes)
        return 0;
    if (!greeting_acceptable(bytes, in->size))
        return -EPROTO;
    if (in->size < GREETING_SIZE)
        return 0;
    r = buf_append(out, readies[zmtp->role], READY_SIZE);
    if (r < 0)
        return r;
    buf_consume(in, GREETING_SIZE);
    zmtp->state = ZMTP_HANDSHAKE;
    return 1;
}

/* READY: properties, of which Socket-Type must be the other of our two. */
static int take_ready(Zmtp *zmtp, Bytes properties)
{
    bool is_other = false;

    while (properties.size > 0) {
        Bytes name, value;

        if (!take_counted(&properties, 1, &name) || !take_counted(&properties, 4, &value))
            return -EPROTO;
        if (name.size == 11 && strncasecmp((const char *)name.data, "Socket-Type", 11) == 0)
            is_other = bytes_equal(value, peer_types[zmtp->role]);
    }
    if (!is_other)
        return -EPROTO;
    zmtp->state = ZMTP_READY;
    return 0;
}

/* PING: two bytes of time to live, then a context that PONG repeats. */
static int answer_ping(Bytes ping, Buf *out)
{
    Bytes ttl;
    uint8_t pong[SHORT_HEADER + 5 + PING_CONTEXT] = {FLAG_COMMAND, 0, 4, 'P', 'O', 'N', 'G'};

    if (!take_bytes(&ping, 2, &ttl) || ping.size > PING_CONTEXT)
        return -EPROTO;
    memcpy(pong + 7, ping.data, ping.size);
    pong[1] = (uint8_t)(5 + ping.size);
    return buf_append(out, pong, 7 + ping.size);
}

static int take_command(Zmtp *zmtp, Bytes command, Buf *out)
{
    Bytes name;

    if (!take_counted(&command, 1, &name))
        return -EPROTO;
    if (zmtp->state == ZMTP_HANDSHAKE)
        return bytes_equal(name, "READY") ? take_ready(zmtp, command) : -EPROTO;
    if (bytes_equal(name, "PING"))
        return answer_ping(command, out);
    return 0;
}

/* MORE is for the messages of a DEALER's peer; the other bits are reserved. */
static bool flags_acceptable(const Zmtp *zmtp, uint8_t flags)
{
    if (flags & ~(FLAG_MORE | FLAG_LONG | FLAG_COMMAND))
        return false;
    if (flags & FLAG_MORE)
        return zmtp->role == ZMTP_ROUTER && !(flags & FLAG_COMMAND);
    return true;
}

/* The frame at the start of `in`. 1: it is whole; 0: more bytes are needed. */
static int read_frame(const Zmtp *zmtp, const Buf *in, uint8_t *ret_flags, ZmtpFrame *ret)
{
    const uint8_t *p = buf_head(in);
    size_t header, max;
    uint64_t size;

    if (!p || in->size < 1)
        return 0;
    if (!flags_acceptable(zmtp, p[0]))
        return -EPROTO;
    header = p[0] & FLAG_LONG ? LONG_HEADER : SHORT_HEADER;
    if (in->size < header)
        return 0;
    if (header == LONG_HEADER) {
        memcpy(&size, p + 1, sizeof(size));
        size = be64toh(size);
    } else {
        size = p[1];
    }
    if (zmtp->state == ZMTP_HANDSHAKE && !(p[0] & FLAG_COMMAND))
        return -EPROTO;
    max = p[0] & FLAG_COMMAND ? COMMAND_MAX : zmtp->max_frame;
    if (size > max)
        return -EMSGSIZE;
    if (in->size - header < size)
        return 0;
    *ret_flags = p[0];
    *ret = (ZmtpFrame){.data = p + header, .size = (size_t)size, .used = header + (size_t)size};
    return 1;
}

/* A message's frame: false when it is one to be skipped, as more follow. */
static bool completes_message(Zmtp *zmtp, uint8_t flags, ZmtpFrame *frame)
{
    frame->multipart = zmtp->in_multipart;
    zmtp->in_multipart = flags & FLAG_MORE;
    return !zmtp->in_multipart;
}

static int take_next(Zmtp *zmtp, Buf *in, Buf *out, ZmtpFrame *ret)
{
    ZmtpFrame frame;
    uint8_t flags;
    int r;

    if (zmtp->state == ZMTP_GREETING) {
        r = take_greeting(zmtp, in, out);
        if (r <= 0)
            return r;
    }
    for (;;) {
        r = read_frame(zmtp, in, &flags, &frame);
        if (r <= 0)
            return r;
        if (flags & FLAG_COMMAND) {
            r = take_command(zmtp, (Bytes){frame.data, frame.size}, out);
            if (r < 0)
                return r;
        } else if (completes_message(zmtp, flags, &frame)) {
            *ret = frame;
            return 1;
        }
        buf_consume(in, frame.used);
    }
}

int zmtp_next(Zmtp *zmtp, Buf *in, Buf *out, ZmtpFrame *ret)
{
    int r;

    if (zmtp->state == ZMTP_FAILED)
        return -EPROTO;
    r = take_next(zmtp, in, out, ret);
    if (r < 0)
        zmtp->state = ZMTP_FAILED;
    return r;
}

int zmtp_frame_begin(const Zmtp *zmtp, Buf *out, size_t *ret_mark)
{
    static const uint8_t header[LONG_HEADER] = {FLAG_LONG};
    size_t mark = out->size;
    int r;

    if (zmtp->state != ZMTP_READY)
        return -ENOTCONN;
    r = buf_append(out, header, sizeof(header));
    if (r == 0)
        *ret_mark = mark;
    return r;
}

void zmtp_frame_end(Buf *out, size_t mark)
{
    uint64_t size = htobe64(out->size - mark - LONG_HEADER);

    memcpy(buf_head(out) + mark + 1, &size, sizeof(size));
}
