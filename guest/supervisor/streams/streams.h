/* The pipes behind the interpreter's standard output and standard error, and the rings before them.
 *
 * Children that a cell leaves behind keep the pipes they were born with. A later cell gets new ones; the old
 * read ends stay open, so that the children do not die of SIGPIPE, and what comes from them is told apart.
 */
#pragma once

#include "guest/supervisor/streams/merge.h"
#include "proto/base/base.h"
#include "proto/base/loop.h"

#define STREAMS 2

typedef struct Streams Streams;

typedef struct Stream {
    LoopFile file;
    int fd; /* read end; -1: none, or at its end */
    unsigned number;
    bool wide; /* its pipe holds more than a pipe usually does */
    Merge merge;
    Streams *owner;
} Stream;

struct Streams {
    Loop *loop;
    Stream current[STREAMS];
    RingReader rings[STREAMS];
    List late; /* of LateStream, oldest first */
    size_t late_count;
    bool paused;
    /* Takes what was written to stream `number`, 1 or 2. */
    void (*on_data)(Streams *streams, unsigned number, const uint8_t *bytes, size_t n);
    void (*on_late)(Streams *streams, unsigned number, const uint8_t *bytes, size_t n);
};

void streams_init(Streams *streams, Loop *loop, void (*on_data)(Streams *, unsigned, const uint8_t *, size_t),
                  void (*on_late)(Streams *, unsigned, const uint8_t *, size_t));
void streams_deinit(Streams *streams);

/* Makes rings for a new interpreter; what was in others is gone. The descriptor is the caller's to close. -1:
 * there are no rings, and the interpreter goes without. */
int streams_share(Streams *streams);

/* Makes a new pair of pipes; the pair before it becomes late. The write ends are the caller's to close. */
int streams_open(Streams *streams, int ret_write_ends[STREAMS]);

/* Stops or resumes reading of the current pair, so that writers wait. */
int streams_pause(Streams *streams, bool paused);

/* Reads what is in the current pair and in the rings at this moment and no more, however fast someone keeps
 * writing. */
void streams_drain(Streams *streams);

/* Reads what was in the pipes when the loop last waited, and what is in the rings: without a system call
 * where that is nothing. */
void streams_drain_known(Streams *streams);

/* Closes the current pair, the late ones, and the rings. */
void streams_close(Streams *streams);
