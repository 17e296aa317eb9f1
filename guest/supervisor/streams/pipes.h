/* Tap: the end from which is read what a program writes: of a pipe, or of its terminal. */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/loop.h"

typedef struct Tap Tap;

struct Tap {
    unsigned number; /* its owner's */
    LoopFile file;
    Loop *loop;
    int fd; /* -1: closed */
    bool paused;
    bool terminal; /* its contents are not known before they are read */
    void (*on_data)(Tap *tap, const uint8_t *bytes, size_t n); /* at most LIMIT_CHUNK */
    void (*on_end)(Tap *tap);                                  /* nobody writes any more, and it is closed */
};

/* `fd` is the tap's from now on, also where this fails: 0 or a negative errno. */
int tap_open(Tap *tap, Loop *loop, int fd);
void tap_close(Tap *tap);

/* Stops or resumes reading, so that writers wait. 0 or a negative errno. */
int tap_pause(Tap *tap, bool paused);

/* Reads what is in it at this moment and no more, however fast someone keeps writing. */
void tap_drain(Tap *tap);

static inline bool tap_is_open(const Tap *tap)
{
    return tap->fd >= 0;
}

/* Feed: the end into which is written what a program reads. What it does not take at once waits here. */

typedef struct Feed Feed;

struct Feed {
    LoopFile file;
    Loop *loop;
    int fd; /* -1: closed */
    Buf waiting;
    bool ends;                    /* to be closed once all has been taken */
    void (*on_taken)(Feed *feed); /* there is room again, or it is closed; may be NULL */
};

#define FEED_NULL ((Feed){.fd = -1})

/* `fd` is the feed's from now on, also where this fails: 0 or a negative errno. */
int feed_open(Feed *feed, Loop *loop, int fd);
void feed_close(Feed *feed);

/* 0; -EPIPE when nobody reads it any more, or it has been ended; another negative errno. */
int feed_write(Feed *feed, const void *bytes, size_t n);
void feed_end(Feed *feed);

static inline bool feed_is_open(const Feed *feed)
{
    return feed->fd >= 0 && !feed->ends;
}
