/* KeeperLink: one end of the stream between the controller and the process that keeps files. A frame is one
 * message, of whatever size the other end may send, with the descriptors that go with it. Neither end
 * believes what the other sends. */
#pragma once

#include "host/keeper/jobs.h"
#include "proto/base/buf.h"
#include "proto/base/list.h"
#include "proto/base/loop.h"

/* Largest request that the controller may send: a piece of a file, or a list of a thousand files that were
 * reported. */
#define KEEPER_REQUEST_MAX (8u << 20)
/* And what it is answered: all that was reported of a session. */
#define KEEPER_ANSWER_MAX (96u << 20)

typedef struct KeeperLink KeeperLink;

typedef struct KeeperLinkEvents {
    /* A frame came, which is the callee's with its descriptors, -1 where there is none. The link may be
     * closed in here. */
    void (*message)(KeeperLink *link, Buf *bytes, int descriptors[static JOB_DESCRIPTORS]);
    /* Nothing more comes: the other end is gone (-EPIPE), or has sent what is no frame (-EBADMSG), or it went
     * wrong otherwise. Told once, on the loop or in keeper_link_wait(). */
    void (*lost)(KeeperLink *link, int error);
} KeeperLinkEvents;

typedef struct KeeperLinkLimits {
    size_t frame; /* bytes of one that comes */
    size_t out;   /* nothing is taken while more than that is left to be sent */
} KeeperLinkLimits;

struct KeeperLink {
    LoopFile file; /* its loop is NULL when the link is closed */
    const KeeperLinkEvents *events;
    KeeperLinkLimits limits;
    Buf in;                    /* the frame that is being read */
    int came[JOB_DESCRIPTORS]; /* its descriptors */
    size_t n_came;
    List out;         /* frames that the other end has not taken */
    size_t out_bytes; /* memory of the queue here, about */
    bool paused;
};

/* Serves an end of a stream socket, which is the link's from now on. 0 or a negative errno. */
int keeper_link_open(KeeperLink *link, Loop *loop, int fd, const KeeperLinkLimits *limits,
                     const KeeperLinkEvents *events);
void keeper_link_close(KeeperLink *link);

/* Sends a frame, which is taken over with its descriptors. Never waits: what the other end does not take now
 * goes later, in order. 0 or a negative errno; of a lost link the event tells too. */
int keeper_link_send(KeeperLink *link, Buf *bytes, int descriptors[static JOB_DESCRIPTORS]);

/* Takes no frames for now, or again. */
void keeper_link_pause(KeeperLink *link, bool paused);

/* Waits until there is something to be taken or to be sent, and does that; or so many milliseconds (-1: any
 * number). */
void keeper_link_wait(KeeperLink *link, int milliseconds);
