/* Tail: the last LIMIT_TAIL bytes that a process has written to both of its streams, in their order. */
#pragma once

#include "proto/base/buf.h"
#include "proto/limits.h"

typedef struct Tail {
    Buf bytes;      /* from `total - bytes.size` on */
    Buf pieces;     /* TailPiece, the oldest first */
    uint64_t total; /* bytes ever written */
} Tail;

/* A run of bytes of one stream. */
typedef struct TailPiece {
    uint64_t end; /* where it ends, counted as `total` is */
    unsigned stream;
} TailPiece;

void tail_deinit(Tail *tail);

/* Without memory it forgets what it has: what is asked for then begins later. */
void tail_write(Tail *tail, unsigned stream, const uint8_t *bytes, size_t n);

static inline uint64_t tail_begin(const Tail *tail)
{
    return tail->total - tail->bytes.size;
}

/* The run that begins at `from`, which is not before tail_begin(): at most `most` bytes of one stream, which
 * are the tail's until it is written again. None where `from` is `total`. */
typedef struct TailRun {
    unsigned stream;
    const uint8_t *bytes;
    size_t n;
} TailRun;
TailRun tail_run(const Tail *tail, uint64_t from, size_t most);
