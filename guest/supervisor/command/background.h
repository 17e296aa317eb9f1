/* Background: what a process of `start` has more than a command: its output can be asked for as long as it is
 * known, from any place that is kept, and its standard input stays open. */
#pragma once

#include "guest/supervisor/command/feed.h"
#include "guest/supervisor/command/tail.h"
#include "guest/supervisor/link/link.h"

typedef struct Background {
    Loop *loop;
    Link *link;
    char name[LIMIT_PROCESS_NAME + 1]; /* "": none */
    bool ended;                        /* nothing more is written to the tail */
    Tail tail;
    List questions;              /* for output that is not there yet */
    uint64_t sending;            /* the message whose bytes wait for the process; 0: none */
    char sent[LIMIT_RUN_ID + 1]; /* the key of the last message with some */
} Background;

void background_init(Background *background, Loop *loop, Link *link, Text name);
void background_deinit(Background *background);

void background_output(Background *background, unsigned stream, const uint8_t *bytes, size_t n);
void background_ended(Background *background);
/* The controller is gone, and whoever asked it. */
void background_unattended(Background *background);

/* Messages of that id. Each is answered, now or later; -EPROTO with a Problem: it is refused. */
int background_tell(Background *background, uint64_t id, const MsgProcessOutput *asked, Problem *problem);
int background_send(Background *background, Feed *feed, bool terminal, uint64_t id,
                    const MsgProcessSend *asked, Problem *problem);
/* The process has taken what was fed, or reads no more. */
void background_taken(Background *background, const Feed *feed);
