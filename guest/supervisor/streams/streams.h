/* The pipes behind the interpreter's standard output and standard error, and the rings before them.
 *
 * Children that a cell leaves behind keep the pipes they were born with. A later cell gets new ones; the old
 * read ends stay open, so that the children do not die of SIGPIPE, and what comes from them is told apart.
 *
 * Output: what is kept of a stream, of a cell or of a command. */
#pragma once

#include "guest/ring.h"
#include "guest/supervisor/streams/pipes.h"
#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/base/loop.h"
#include "proto/limits.h"
#include "proto/schema.h"

/* Output of a cell or a command to one stream: the first bytes for the reply, all of them counted, and the
 * whole of a stream that is too long for the reply in a spill file. */

/* Directory of spill files. */
typedef struct Spill {
    int directory;  /* descriptor; -1: nowhere */
    uint64_t limit; /* bytes of one file */
} Spill;

/* Limits of all that writes. */
typedef struct OutputLimits {
    size_t output; /* bytes of one stream in the record */
    Spill spill;
} OutputLimits;

#define OUTPUTS    2
#define SPILL_STEM 48 /* size of the name that a spill file begins with; it ends with that of the stream */
#define SPILL_NAME (SPILL_STEM + 8)
#define SPILL_PATH 96

#define SPILL_NONE ((Spill){.directory = -1, .limit = LIMIT_SPILL})

/* Opens the directory that the controller made for it in the session's directory. Without it long output is
 * cut and nothing more; without the session's directory it fails. 0 or a negative errno, logged. */
int spill_open(Spill *spill, const char *session_directory);
void spill_close(Spill *spill);

typedef struct Output {
    Buf kept;       /* at most `limit` bytes, as they were written */
    size_t limit;   /* bytes of text in the reply */
    uint64_t total; /* bytes written */
    bool truncated; /* known after output_text() */
    const Spill *spill;
    char name[SPILL_NAME];
    int spill_fd; /* -1: not open */
    uint64_t spilled;
    bool spill_failed;
} Output;

void output_init(Output *output, size_t limit, const Spill *spill, const char *name);
void output_deinit(Output *output); /* may be said twice */

/* Never fails: without memory or disk the text or the file is shorter, the total stays exact. */
void output_write(Output *output, const uint8_t *bytes, size_t n);

/* Appends the text of the reply to `text`: valid UTF-8, at most `limit` bytes, no character cut in two. Sets
 * `truncated`, and then makes sure of the spill file. 0 or -ENOMEM. */
int output_text(Output *output, Buf *text);

/* Writes the path of the spill file to `ret` (`size` bytes). false when there is none. */
bool output_file(const Output *output, char *ret, size_t size);

/* Standard output and standard error; `limits` outlives them. */
void outputs_init(Output outputs[OUTPUTS], const OutputLimits *limits, const char *stem);
void outputs_deinit(Output outputs[OUTPUTS]);

/* Words of a record about both. It points to the memory of `ret`. */
typedef struct OutputWords {
    Buf text[OUTPUTS];
    char file[OUTPUTS][SPILL_PATH];
} OutputWords;

void output_words_deinit(OutputWords *words);
int outputs_say(MsgExecuted *record, Output outputs[OUTPUTS], OutputWords *ret);
/* The same of what was written before the call. */
int outputs_say_between(MsgExecuted *record, const Output between[OUTPUTS], OutputWords *ret);

/* The reader's side of the rings in guest/ring.h. Their writer may put anything there at any moment: what
 * decides about memory is read once, checked, and never read again. */

typedef struct RingReader {
    Ring *ring; /* NULL: there is no ring, and so nothing in it */
    uint64_t taken;
    uint8_t nonce[RING_NONCE];
} RingReader;

#define RING_READER_NULL ((RingReader){0})

/* Makes new rings in a memfd that cannot be made shorter. *ret_fd is the caller's. 0 or a negative errno. */
int rings_open(RingReader readers[2], int *ret_fd);
void rings_close(RingReader readers[2]);

/* The position behind all that is in it. */
uint64_t ring_head(const RingReader *reader);

/* Takes what is before `until`, which ring_position() gave, at most `room` bytes. Returns how many. */
size_t ring_take(RingReader *reader, uint64_t until, uint8_t *ret, size_t room);

/* Merge of two sources into one stream: the bytes that come through its pipe, and those of its ring at the
 * places that the marks in the pipe tell. */

typedef struct Merge Merge;

struct Merge {
    RingReader *ring;
    uint8_t held[sizeof(RingMark)]; /* bytes that were read last, perhaps the beginning of a mark */
    size_t held_size;
    /* Takes the stream, in pieces of at most LIMIT_CHUNK. */
    void (*on_data)(Merge *merge, const uint8_t *bytes, size_t n);
};

/* Moves the held bytes, fewer than a mark has, to `ret`, where the next ones are read behind them. */
size_t merge_recall(Merge *merge, uint8_t *ret);

/* Takes what came through the pipe, behind what was recalled; at most LIMIT_CHUNK. However many marks are in
 * it, no more is taken of the ring than it holds at this moment. */
void merge_pipe(Merge *merge, const uint8_t *bytes, size_t n);

/* Takes the rest, as the pipe has been read: of the ring as far as `until`, its head at an earlier moment.
 * One piece at most. */
void merge_rest(Merge *merge, uint64_t until);

#define STREAMS 2

typedef struct Streams Streams;

typedef struct Stream {
    PipeReader reader;
    Merge merge;
    Streams *owner;
} Stream;

struct Streams {
    Loop *loop;
    Stream current[STREAMS];
    RingReader rings[STREAMS];
    List late; /* of LateStream, oldest first */
    size_t late_count;
    /* Takes what was written to stream `number`, 1 or 2. */
    void (*on_data)(Streams *streams, unsigned number, const uint8_t *bytes, size_t n);
    void (*on_late)(Streams *streams, unsigned number, const uint8_t *bytes, size_t n);
};

void streams_init(Streams *streams, Loop *loop, void (*on_data)(Streams *, unsigned, const uint8_t *, size_t),
                  void (*on_late)(Streams *, unsigned, const uint8_t *, size_t));

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

/* Reads what the rings hold, unless reading is paused: without a system call where that is nothing. */
void streams_look(Streams *streams);

/* Closes the current pair, the late ones, and the rings. */
void streams_close(Streams *streams);
