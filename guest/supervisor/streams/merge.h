/* Merge of two sources into one stream: the bytes that come through its pipe, and those of its ring at the
 * places that the marks in the pipe tell. */
#pragma once

#include "guest/supervisor/streams/ring.h"

typedef struct Merge Merge;

struct Merge {
    RingReader *ring;
    uint8_t held[sizeof(RingMark)]; /* bytes that were read last, perhaps the beginning of a mark */
    size_t held_size;
    /* Takes the stream, in pieces of at most LIMIT_CHUNK. */
    void (*on_data)(Merge *merge, const uint8_t *bytes, size_t n);
};

/* Moves the held bytes, fewer than a mark has, to `ret`, where the next ones are read behind them. */
size_t merge_recall(Merge *merge, uint8_t *ret);

/* Takes what came through the pipe, behind what was recalled; at most LIMIT_CHUNK. However many marks are in
 * it, no more is taken of the ring than it holds at this moment. */
void merge_pipe(Merge *merge, const uint8_t *bytes, size_t n);

/* Takes the rest, as the pipe has been read: of the ring as far as `until`, its head at an earlier moment.
 * One piece at most. */
void merge_rest(Merge *merge, uint64_t until);
