/* Background: what a process of `start` has more than a command: its output can be asked for as long as it is
 * known, from any place that is kept, and its standard input stays open. */
#pragma once

#include "guest/supervisor/link/link.h"
#include "guest/supervisor/streams/pipes.h"
#include "proto/base/buf.h"
#include "proto/limits.h"

/* OutputHistory: the last LIMIT_TAIL bytes that a process has written to both of its streams, in their order.
 */

typedef struct OutputHistory {
    Buf bytes;      /* from `total - bytes.size` on */
    Buf pieces;     /* HistoryPiece, the oldest first */
    uint64_t total; /* bytes ever written */
} OutputHistory;

/* A run of bytes of one stream. */
typedef struct HistoryPiece {
    uint64_t end; /* where it ends, counted as `total` is */
    unsigned stream;
} HistoryPiece;

void history_deinit(OutputHistory *history);

/* Without memory it forgets what it has: what is asked for then begins later. */
void history_write(OutputHistory *history, unsigned stream, const uint8_t *bytes, size_t n);

static inline uint64_t history_begin(const OutputHistory *history)
{
    return history->total - history->bytes.size;
}

/* The run that begins at `from`, which is not before history_begin(): at most `most` bytes of one stream,
 * which are the history's until it is written again. None where `from` is `total`. */
typedef struct HistoryRun {
    unsigned stream;
    const uint8_t *bytes;
    size_t n;
} HistoryRun;
HistoryRun history_run(const OutputHistory *history, uint64_t from, size_t most);

typedef struct Background {
    Loop *loop;
    Link *link;
    char name[LIMIT_PROCESS_NAME + 1]; /* "": none */
    bool ended;                        /* nothing more is written to the history */
    OutputHistory history;
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
int background_send(Background *background, PipeWriter *writer, bool terminal, uint64_t id,
                    const MsgProcessSend *asked, Problem *problem);
/* The process has taken what was fed, or reads no more. */
void background_taken(Background *background, const PipeWriter *writer);
