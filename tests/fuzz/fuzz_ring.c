/* Bytes that a hostile interpreter puts into its rings and its pipe. The input is a row of steps: a letter,
 * and what belongs to it. */
#include <string.h>
#include <unistd.h>

#include "guest/supervisor/streams/streams.h"
#include "proto/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t arrived;

static void on_data(Merge *merge, const uint8_t *bytes, size_t n)
{
    if (n == 0 || n > LIMIT_CHUNK)
        abort();
    arrived += n;
}

static uint64_t number(const uint8_t **data, size_t *size)
{
    uint64_t value = 0;
    size_t n = MIN(*size, sizeof(value));

    memcpy(&value, *data, n);
    *data += n;
    *size -= n;
    return value;
}

static void read_pipe(Merge *merge, const uint8_t *bytes, size_t n)
{
    static uint8_t space[LIMIT_CHUNK];
    uint64_t before = merge->ring->taken;
    size_t held = merge_recall(merge, space);

    n = MIN(n, sizeof(space) - held);
    memcpy(space + held, bytes, n);
    arrived = 0;
    if (held + n > 0)
        merge_pipe(merge, space, held + n);
    if (merge->ring->taken - before > RING_SPACE || arrived > held + n + RING_SPACE)
        abort();
}

static void finish(Merge *merge, uint64_t until)
{
    arrived = 0;
    merge_rest(merge, until);
    if (arrived > RING_SPACE + sizeof(RingMark))
        abort();
}

static void step(Merge *merge, uint8_t what, const uint8_t **data, size_t *size)
{
    Ring *ring = merge->ring->ring;
    uint64_t value = number(data, size);
    RingMark mark = {.position = value};

    memcpy(mark.nonce, merge->ring->nonce, sizeof(mark.nonce));
    switch (what) {
    case 'h':
        ring->head = value;
        break;
    case 'n':
        ring->head = merge->ring->taken + value % (RING_SPACE + 2);
        break;
    case 's':
        ring->start = value;
        break;
    case 't':
        ring->tail = value;
        break;
    case 'm':
        read_pipe(merge, (const uint8_t *)&mark, sizeof(mark));
        break;
    case 'c': /* in two, perhaps with something else between */
        read_pipe(merge, (const uint8_t *)&mark, value % sizeof(mark));
        break;
    case 'r':
        finish(merge, value);
        break;
    default:
        read_pipe(merge, (const uint8_t *)&value, value % sizeof(value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    RingReader readers[2] = {RING_READER_NULL, RING_READER_NULL};
    int fd = -1;

    if (rings_open(readers, &fd) < 0)
        abort();
    close(fd);

    Merge merge = {.ring = &readers[0], .on_data = on_data};
    while (size > 0) {
        uint8_t what = *data;

        data++;
        size--;
        step(&merge, what, &data, &size);
    }
    finish(&merge, ring_head(&readers[0]));
    rings_close(readers);
    return 0;
}
