/* Output of the interpreter that it has not yet put into its pipes: one ring for each stream, in memory that
 * it shares with the supervisor, so that nothing of it is lost with the process.
 *
 * Its place among what others write to the same pipe is told by a mark in the pipe: "here comes what the ring
 * holds up to this position". A flush is a mark and nothing more. Bytes that no mark has told of are taken
 * every few milliseconds while a call is followed, and at the end of the call, or of the interpreter, behind
 * what the pipe holds. A position is that of a byte in the stream, and each byte is taken once: an
 * interpreter that dies in the middle of a flush, before or behind the write, leaves neither a gap nor a
 * repetition. Bytes in the pipe and a count of those that were flushed could not tell, because children write
 * to the same pipe.
 *
 * The interpreter is hostile: everything but `tail` is its own word, and a mark may be forged. */
#pragma once

#include <stdatomic.h>

#include "proto/base/base.h"

#define RING_FD    4 /* where the interpreter finds both; not there: it does without */
#define RING_SIZE  (64u << 10)
#define RING_NONCE 16u
#define RING_SPACE (RING_SIZE - 3 * sizeof(uint64_t) - RING_NONCE)

typedef struct Ring {
    _Atomic uint64_t head;  /* the position behind what was put in; the writer's, as are all but `tail` */
    _Atomic uint64_t start; /* the position of the byte at space[0]; changes only while the ring is empty */
    _Atomic uint64_t tail;  /* behind what was taken; the reader's */
    uint8_t nonce[RING_NONCE];
    uint8_t space[RING_SPACE];
} Ring;

/* Rings of standard output and standard error. */
typedef struct Rings {
    Ring ring[2];
} Rings;

_Static_assert(sizeof(Ring) == RING_SIZE, "a ring fills its pages");

/* Shorter than PIPE_BUF: it is in a pipe as a whole or not at all. `nonce` is random and only the interpreter
 * knows it, so that no output is one by accident. */
typedef struct RingMark {
    uint8_t nonce[RING_NONCE];
    uint64_t position;
} RingMark;

_Static_assert(sizeof(RingMark) == RING_NONCE + sizeof(uint64_t), "a mark has no padding");

/* A byte that no text in UTF-8 has: text never looks like the beginning of a mark. */
#define RING_NONCE_FIRST 0xFFu
