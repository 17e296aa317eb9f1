/* Chunks: a chunked body of HTTP/1.1, read piece by piece. Strict, and pure. */
#pragma once

#include "proto/wire.h"

typedef struct Chunks {
    int state;
    uint64_t left; /* of the chunk */
    size_t digits, line;
} Chunks;

void chunks_begin(Chunks *chunks);

/* Takes from `bytes` and appends what the body has to `ret`, whose limit is not reached by that. How many
 * bytes were taken, which are all unless the body ends; or -EPROTO. */
ssize_t chunks_take(Chunks *chunks, const uint8_t *bytes, size_t size, Buf *ret);
bool chunks_ended(const Chunks *chunks);
