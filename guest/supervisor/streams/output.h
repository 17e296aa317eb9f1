/* Output of a cell or a command to one stream: the first bytes for the reply, all of them counted, and the
 * whole of a stream that is too long for the reply in a spill file. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/limits.h"
#include "proto/schema.h"

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
