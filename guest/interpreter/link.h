/* The connection to the supervisor: its descriptors, messages that come, and those that go. */
#pragma once

#include <signal.h>

#include "guest/channel.h"
#include "guest/interpreter/checkpoint/notes.h"
#include "guest/interpreter/pyref.h"

/* The interpreter's own descriptors, kept out of the reach of cells that close or replace 0, 1, 2 and 3. */

/* Duplicates 0, 1, 2 and the channel to high numbers, close-on-exec, and closes CHANNEL_FD. A negative errno.
 */
int descriptors_init(void);

/* A duplicate out of the way of daemon code, which closes everything below 256, where the limit allows it;
 * close-on-exec. A negative errno. */
int descriptors_duplicate(int fd);

/* The private duplicate of 1 or 2; the number never changes. */
int descriptors_stream(int fd);
int descriptors_channel(void);

/* Makes 0, 1 and 2 what they should be, whatever a cell has done to them. */
void descriptors_restore(void);

/* From now on 1 and 2 are these; takes the descriptors. Does nothing with -1. */
void descriptors_replace(const int fds[2]);

/* Until they are restored, what is written to 1 and 2 goes nowhere. */
void descriptors_mute(void);

/* Returns whether the descriptor is one of 0, 1, 2 and the private ones. */
bool descriptors_is_own(int fd);

/* 1 or 2 when that is the file behind it, otherwise 0. */
int descriptors_stream_of(dev_t device, ino_t inode);

/* For a copy that is to hold nothing of what it was copied from: 1 and 2 lead nowhere, and `channel`, which
 * is taken, is the channel. */
void descriptors_detach(int channel);

/* A few descriptors are kept for the work around a checkpoint, however many cells have open: keeping takes
 * them, freeing makes room for others. Both may be called again. */
void descriptors_spare_keep(void);
void descriptors_spare_free(void);

/* The channel, 1 and 2 are the first three; takes those. */
void descriptors_attach(const int fds[CHANNEL_FDS]);

/* Messages that arrive. One thread at a time takes from the channel; none needs the GIL for that. */

/* Blocking: the next message, valid until the next call, and the descriptors that came with it, which are the
 * caller's. 0 or a negative errno. */
int inbox_next(ChannelFrame *ret, int fds[CHANNEL_FDS]);

/* The next message, which has no use for descriptors; while nothing is there, with this mask of signals.
 * -EINTR after a signal, -ECANCELED when the descriptor `wake` (-1: none) can be read. */
int inbox_wait(ChannelFrame *ret, int wake, const sigset_t *mask);

/* So that the next message is taken without memory of an allocator, if it is a short one. */
void inbox_reserve(void);

/* Returns whether nothing of a message has been read yet, so that the channel tells when the next one
 * comes. */
bool inbox_is_empty(void);

/* For a new channel. */
void inbox_clear(void);

/* Messages of the interpreter. Those of several threads do not mix; a forked child says nothing. Called with
 * the GIL, which is released while writing. */

typedef struct CellOutcome {
    PyObject *result;     /* str, or NULL: the cell has no value */
    PyObject *error;      /* tuple (name, message, traceback) of str, or NULL */
    PyObject *memory;     /* list as memory.py makes it of what holds most of it, or NULL */
    bool lacked_memory;   /* it ended with a MemoryError */
    double cpu;           /* seconds, of the interpreter and the children it waited for */
    uint64_t peak_memory; /* bytes, of the interpreter since it began */
} CellOutcome;

void outcome_deinit(CellOutcome *outcome);

/* Room for one message. */
#define REPLY_NULL ((Buf){.limit = LIMIT_GUEST_FRAME})

/* Encodes the end of a cell into `ret`, which is empty before, to be sent later. */
int reply_executed(Buf *ret, uint64_t id, const CellOutcome *outcome);
int reply_send(Buf *reply);

/* All: 0 or a negative errno. */
int reply_ready(uint64_t id, const Notes *not_restored, PyObject *memory);
int reply_namespace(uint64_t id);
/* A list of str; and as CellOutcome.error what the setup code ended with, or NULL. */
int reply_prepared(uint64_t id, PyObject *failed, PyObject *error);
/* To `save` or `load`: a str, or NULL where it was done; a list of at most LIMIT_RESTORED str. */
int reply_moved(MessageKind kind, uint64_t id, PyObject *error, PyObject *missing);

typedef struct Question {
    uint64_t ask;
    const char *kind;
    PyObject *name;     /* str */
    const Buf *payload; /* a value in msgpack, or nothing */
} Question;

/* Asks a question of the running cell. -1 with an exception. */
int reply_ask(const Question *question);

typedef struct Display {
    PyObject *data, *metadata; /* dicts; MIME type to value */
    PyObject *id;              /* str or None */
    bool is_result, update;
} Display;

/* Sends a display of the running cell; between two cells its text is printed. A value that is not plain data
 * becomes a note that says so, as does a display that is over the limit of a call by itself. -1 with an
 * exception. */
int reply_display(const Display *display);
