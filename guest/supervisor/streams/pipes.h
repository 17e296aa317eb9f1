/* The supervisor's ends of pipes and terminals that programs write to and read from. */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/loop.h"

/* Opens a pipe of which a program gets the end `given`, 0 to read or 1 to write. It may open that end by name
 * as well, as /dev/stdin or /dev/stderr: the mode lets it, as the pipe is not its user's. 0 or a negative
 * errno. */
int pipe_for_program(int ret[static 2], int given);

/* PipeReader: takes what a program writes. */
typedef struct PipeReader PipeReader;

struct PipeReader {
    unsigned number; /* its owner's */
    LoopFile file;
    Loop *loop;
    int fd; /* -1: closed */
    bool paused;
    bool terminal; /* a pty: FIONREAD does not tell how much is left to read */
    bool widens;   /* the pipe may grow while more comes than it holds */
    bool wide;
    /* Writes bytes that belong before the next ones to `ret`, and returns how many. NULL: there never are
     * any. */
    size_t (*recall)(PipeReader *reader, uint8_t *ret);
    void (*on_data)(PipeReader *reader, const uint8_t *bytes, size_t n); /* at most LIMIT_CHUNK */
    /* Nobody writes any more, and it is closed. The reader may be freed there. */
    void (*on_end)(PipeReader *reader);
};

/* `fd` is the reader's from now on, also where this fails: 0 or a negative errno. */
int pipe_reader_open(PipeReader *reader, Loop *loop, int fd);
void pipe_reader_close(PipeReader *reader);
/* Gives up the descriptor, which is the caller's then. */
int pipe_reader_release(PipeReader *reader);

/* Stops or resumes reading, so that writers wait. 0 or a negative errno. */
int pipe_reader_pause(PipeReader *reader, bool paused);

/* Reads what is in it at this moment and no more, however fast someone keeps writing. */
void pipe_reader_drain(PipeReader *reader);

/* The same as long as it is not paused. Returns false where it is by now. */
bool pipe_reader_catch_up(PipeReader *reader);

/* The pipe holds what a pipe usually does again. */
void pipe_reader_narrow(PipeReader *reader);

static inline bool pipe_reader_is_open(const PipeReader *reader)
{
    return reader->fd >= 0;
}

/* PipeWriter: gives a program what it reads. What it does not take at once waits here. */
typedef struct PipeWriter PipeWriter;

struct PipeWriter {
    LoopFile file;
    Loop *loop;
    int fd; /* -1: closed */
    Buf waiting;
    bool ends;                            /* to be closed once all has been taken */
    void (*on_taken)(PipeWriter *writer); /* there is room again, or it is closed; may be NULL */
};

#define PIPE_WRITER_NULL ((PipeWriter){.fd = -1})

/* `fd` is the writer's from now on, also where this fails: 0 or a negative errno. */
int pipe_writer_open(PipeWriter *writer, Loop *loop, int fd);
void pipe_writer_close(PipeWriter *writer);

/* 0; -EPIPE when nobody reads it any more, or it has been ended; another negative errno. */
int pipe_writer_write(PipeWriter *writer, const void *bytes, size_t n);
void pipe_writer_end(PipeWriter *writer);

static inline bool pipe_writer_is_open(const PipeWriter *writer)
{
    return writer->fd >= 0 && !writer->ends;
}
