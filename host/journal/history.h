/* History: the calls of a sandbox in the order they ended, with their code, for `export`. It lies beside the
 * journal in a file of its own, to which is only appended, and goes with the session. Nothing here fails:
 * what could not be written is missing.
 *
 *   entry    size (4 bytes, big endian), then one msgpack map (MsgHistory)
 *
 * It is bounded: from HISTORY_RECORDS bytes on entries come without their records, and at HISTORY_BYTES it
 * ends with one that says so. */
#pragma once

#include "host/call/call.h"
#include "host/sandbox/sandbox.h"

typedef struct History {
    int fd; /* -1: none is kept */
    uint64_t size;
    bool full;
} History;

#define HISTORY_NULL ((History){.fd = -1})

/* An empty one; or that which an earlier controller has left, without what it wrote in part. */
void history_begin(History *history, const Sandbox *sandbox);
void history_go_on(History *history, const Sandbox *sandbox);
/* `leave`: it is the next controller's. Otherwise the file goes. */
void history_end(History *history, const Sandbox *sandbox, bool leave);

/* The call has ended; its code is known unless an earlier controller sent it. */
void history_call(History *history, const Call *call);
/* The variables of a branch are those after call `count` from now on, */
void history_back(History *history, uint64_t branch, uint64_t count);
/* or those of another branch. */
void history_committed(History *history, uint64_t branch, uint64_t from);

/* Appends entries from offset *at on to `ret`, as many as fit into `most` bytes and one at least; *at is
 * where the next begins. 0; or -EBADMSG where no entry begins at *at. */
int history_read(const Sandbox *sandbox, uint64_t *at, size_t most, Buf *ret, uint32_t *ret_count);

/* Removes those of sessions that there are none of any more. */
void history_sweep(const Paths *paths);
