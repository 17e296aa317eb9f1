#include "host/egress/chunks.h"

#include <errno.h>

/* Place in the body where the next byte belongs. */
enum {
    IN_SIZE,      /* hexadecimal digits */
    IN_EXTENSION, /* after a semicolon, to the end of the line */
    AT_SIZE_END,  /* the '\n' of that line */
    IN_DATA,
    AT_DATA_CR,
    AT_DATA_END,
    IN_TRAILER, /* lines after the last chunk, up to an empty one */
    AT_TRAILER_END,
    ENDED,
};

#define DIGITS_MAX 15u
#define LINE_MAX_  4096u /* an extension; all trailers */

void chunks_begin(Chunks *chunks)
{
    *chunks = (Chunks){.state = IN_SIZE};
}

bool chunks_ended(const Chunks *chunks)
{
    return chunks->state == ENDED;
}

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static int in_size(Chunks *chunks, uint8_t byte)
{
    int digit = digit_of(byte);

    if (digit >= 0) {
        chunks->left = chunks->left * 16 + (uint64_t)digit;
        return ++chunks->digits > DIGITS_MAX ? -EPROTO : 0;
    }
    if (chunks->digits == 0 || (byte != '\r' && byte != ';'))
        return -EPROTO;
    chunks->state = byte == '\r' ? AT_SIZE_END : IN_EXTENSION;
    return 0;
}

static int in_line(Chunks *chunks, uint8_t byte, int next)
{
    if (byte == '\r')
        chunks->state = next;
    else if ((byte < ' ' && byte != '\t') || ++chunks->line > LINE_MAX_)
        return -EPROTO;
    return 0;
}

static void after_size(Chunks *chunks)
{
    chunks->state = chunks->left > 0 ? IN_DATA : IN_TRAILER;
    chunks->digits = 0;
    chunks->line = 0;
}

/* A byte that is no data. `line` counts what an empty line does not have; of trailers, from the last line on.
 */
static int step(Chunks *chunks, uint8_t byte)
{
    switch (chunks->state) {
    case IN_SIZE:
        return in_size(chunks, byte);
    case IN_EXTENSION:
        return in_line(chunks, byte, AT_SIZE_END);
    case AT_SIZE_END:
        after_size(chunks);
        return byte == '\n' ? 0 : -EPROTO;
    case AT_DATA_CR:
        chunks->state = AT_DATA_END;
        return byte == '\r' ? 0 : -EPROTO;
    case AT_DATA_END:
        chunks->state = IN_SIZE;
        return byte == '\n' ? 0 : -EPROTO;
    case IN_TRAILER:
        chunks->digits += byte != '\r';
        return in_line(chunks, byte, AT_TRAILER_END);
    case AT_TRAILER_END:
        chunks->state = chunks->digits > 0 ? IN_TRAILER : ENDED;
        chunks->digits = 0;
        return byte == '\n' ? 0 : -EPROTO;
    default:
        return -EPROTO;
    }
}

ssize_t chunks_take(Chunks *chunks, const uint8_t *bytes, size_t size, Buf *ret)
{
    size_t at = 0;

    while (at < size && chunks->state != ENDED) {
        size_t n = (size_t)MIN((uint64_t)(size - at), chunks->left);

        if (chunks->state != IN_DATA) {
            if (step(chunks, bytes[at++]) < 0)
                return -EPROTO;
            continue;
        }
        if (buf_append(ret, bytes + at, n) < 0)
            return -EPROTO;
        at += n;
        chunks->left -= n;
        if (chunks->left == 0)
            chunks->state = AT_DATA_CR;
    }
    return (ssize_t)at;
}
