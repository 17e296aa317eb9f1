/* Feed: the end into which is written what a program reads. What it does not take at once waits here. */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/loop.h"

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
