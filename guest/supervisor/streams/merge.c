#include "guest/supervisor/streams/merge.h"

#include <string.h>

#include "proto/limits.h"

/* Space that all merges share: there is one thread, and one merge at a time. */
static uint8_t piece[LIMIT_CHUNK];
static size_t piece_size;

static void deliver_piece(Merge *merge)
{
    size_t n = piece_size;

    piece_size = 0;
    if (n > 0)
        merge->on_data(merge, piece, n);
}

static void put(Merge *merge, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t part = MIN(n, sizeof(piece) - piece_size);

        memcpy(piece + piece_size, bytes, part);
        piece_size += part;
        bytes += part;
        n -= part;
        if (piece_size == sizeof(piece))
            deliver_piece(merge);
    }
}

static void put_ring(Merge *merge, uint64_t until)
{
    size_t n;

    while ((n = ring_take(merge->ring, until, piece + piece_size, sizeof(piece) - piece_size)) > 0) {
        piece_size += n;
        if (piece_size == sizeof(piece))
            deliver_piece(merge);
    }
}

/* The bytes before the first mark, or before what may be the beginning of one at the end. */
static size_t plain_size(const Merge *merge, const uint8_t *bytes, size_t n)
{
    const uint8_t *nonce = merge->ring->nonce;
    size_t begun = MIN(n, (size_t)RING_NONCE - 1);

    if (!merge->ring->ring)
        return n;

    const uint8_t *mark = memmem(bytes, n, nonce, RING_NONCE);
    if (mark)
        return (size_t)(mark - bytes);
    while (begun > 0 && memcmp(bytes + n - begun, nonce, begun) != 0)
        begun--;
    return n - begun;
}

static void hold(Merge *merge, const uint8_t *bytes, size_t n)
{
    memcpy(merge->held, bytes, n);
    merge->held_size = n;
}

size_t merge_recall(Merge *merge, uint8_t *ret)
{
    size_t n = merge->held_size;

    memcpy(ret, merge->held, n);
    merge->held_size = 0;
    return n;
}

/* The head is read once, and after the pipe, as whoever writes a mark has filled the ring before. */
void merge_pipe(Merge *merge, const uint8_t *bytes, size_t n)
{
    uint64_t head = ring_head(merge->ring);
    size_t plain = plain_size(merge, bytes, n);

    if (plain == n) {
        merge->on_data(merge, bytes, n);
        return;
    }
    while (n - plain >= sizeof(RingMark)) {
        RingMark mark;

        memcpy(&mark, bytes + plain, sizeof(mark));
        put(merge, bytes, plain);
        put_ring(merge, ring_position(merge->ring, mark.position, head));
        bytes += plain + sizeof(mark);
        n -= plain + sizeof(mark);
        plain = plain_size(merge, bytes, n);
    }
    put(merge, bytes, plain);
    hold(merge, bytes + plain, n - plain);
    deliver_piece(merge);
}

void merge_rest(Merge *merge, uint64_t until)
{
    uint8_t held[sizeof(merge->held)];

    put(merge, held, merge_recall(merge, held));
    put_ring(merge, ring_position(merge->ring, until, ring_head(merge->ring)));
    deliver_piece(merge);
}
