/* The reader's side of the rings in guest/ring.h. Their writer may put anything there at any moment: what
 * decides about memory is read once, checked, and never read again. */
#pragma once

#include "guest/ring.h"

typedef struct RingReader {
    Ring *ring; /* NULL: there is no ring, and so nothing in it */
    uint64_t taken;
    uint8_t nonce[RING_NONCE];
} RingReader;

#define RING_READER_NULL ((RingReader){0})

/* Makes new rings in a memfd that cannot be made shorter. *ret_fd is the caller's. 0 or a negative errno. */
int rings_open(RingReader readers[2], int *ret_fd);
void rings_close(RingReader readers[2]);

/* The position behind all that is in it. */
uint64_t ring_head(const RingReader *reader);

/* The position that a mark means: not before what was taken, not behind `head`. */
uint64_t ring_position(const RingReader *reader, uint64_t marked, uint64_t head);

/* Takes what is before `until`, which ring_position() gave, at most `room` bytes. Returns how many. */
size_t ring_take(RingReader *reader, uint64_t until, uint8_t *ret, size_t room);
