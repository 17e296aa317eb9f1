/* Result of a call: what it asks and shows while it runs, and how it ended in the terms of the record, with
 * the error in plain words. What became of the variables is another matter (branch.h), told once it is
 * certain. */
#pragma once

#include <sys/types.h>

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/checkpoint/checkpoint.h"
#include "guest/supervisor/link/link.h"
#include "proto/ask_mode.h"
#include "proto/base/base.h"
#include "proto/base/list.h"
#include "proto/schema.h"

/* Questions of one cell to the client that runs it: checked, kept until they are answered, and bounded. */
typedef struct Questions {
    AskMode mode;
    List waiting; /* of Ask, oldest first */
    size_t count; /* questions in `waiting` */
    size_t asked; /* questions of the call so far */
} Questions;

void questions_init(Questions *questions, AskMode mode);
void questions_deinit(Questions *questions); /* nobody is asked any more */

/* 0, or -EPROTO with a Problem. */
int question_decode(MsgAsk *ret, const msgpack_object_map *body, Problem *problem);
int answer_decode(MsgAnswer *ret, const msgpack_object_map *body, Problem *problem);

/* The answer that the supervisor gives itself where nobody is asked, because of `why`. */
MsgAnswer question_refusal(const MsgAsk *question, const char *why);

/* Keeps a question of the call `id`. NULL, or why it is not asked. */
const char *questions_add(Questions *questions, uint64_t id, const MsgAsk *question);

/* An answer has come: its question waits no more. false: no question of that number waits. */
bool questions_take(Questions *questions, uint64_t ask);

/* Sends the questions that this controller has not been sent, oldest first. */
void questions_send(Questions *questions, Link *link);
bool questions_unsent(const Questions *questions);
void questions_send_again(Questions *questions); /* the next controller gets all that wait */

/* Appends to `frame` the `answer` that the interpreter gets, as its channel has it. 0, -ENOBUFS or -ENOMEM.
 */
int answer_encode(Buf *frame, uint64_t id, const MsgAnswer *answer);

/* Why a call was asked to end. */
typedef enum InterruptionCause {
    INTERRUPTION_CAUSE_NONE,
    INTERRUPTION_CAUSE_DEADLINE,
    INTERRUPTION_CAUSE_INTERRUPT,
} InterruptionCause;

/* The displays of one cell, checked and kept encoded until the record is written. */
typedef struct Displays {
    List entries; /* of DisplayEntry, in order */
    size_t count;
    size_t bytes;
    size_t nodes;
    size_t dropped; /* displays over the limits; one notice at the end tells of them */
    bool clearing;  /* the next display takes the place of all */
} Displays;

void displays_init(Displays *displays);
void displays_deinit(Displays *displays);

/* Refuses an update of no display in particular that shows something. 0, or -EPROTO with a Problem. */
int display_decode(MsgDisplay *ret, const msgpack_object_map *body, Problem *problem);

/* Keeps a copy. An update takes the place of the display with the same display_id, if there is one; without a
 * display_id it takes back all that was shown. false: the display is over the limits, counted and dropped. */
bool displays_add(Displays *displays, const MsgDisplay *display);

/* Its metadata, an empty map where it has none. */
Value display_metadata(const MsgDisplay *display);

/* The array `displays` of the record, the notice included. */
Value displays_say(const Displays *displays);

/* Decodes what the interpreter says about a cell that ended by itself: checked, but its own words. *ret
 * points into the message; its displays are added to `displays`. 0, or -EPROTO with a Problem. */
int executed_decode(MsgCellExecuted *ret, Displays *displays, const msgpack_object_map *body,
                    Problem *problem);

typedef struct Outcome {
    const char *status;
    Text result;
    MsgPythonError error; /* may point into `message`; without a name there is none */
    bool has_changed;     /* the call changed names, and they still are what it made of them */
    MsgChanged changed;
    Value memory;  /* absent, or what holds most of it */
    int exit_code; /* -1: did not exit */
    int signal;    /* 0: no signal */
    double cpu;    /* seconds */
    uint64_t peak_memory;
    bool speaks_of_state; /* `message` gets the sentence about the variables appended */
    char message[1536];
} Outcome;

/* The cell came to its end by itself, in time or after a SIGINT. *ret points to what `executed` points to. */
void outcome_finished(Outcome *ret, const MsgCellExecuted *executed, InterruptionCause cause, double timeout);

/* Copies the texts to `into`, which is empty before, so that they outlive their message. Changed names and
 * those that hold memory are forgotten. 0 or -ENOMEM. */
int outcome_own(Outcome *outcome, Buf *into);

/* Loss of the interpreter. */
typedef struct Loss {
    InterruptionCause killed; /* why the call was killed; INTERRUPTION_CAUSE_NONE: it was not */
    bool reset;               /* with INTERRUPTION_CAUSE_INTERRUPT: by a reset */
    const char *fault;        /* breach of the protocol; NULL: there was none */
    int status;               /* as from waitpid, where neither holds */
    double timeout;           /* of the call, seconds */
    bool waited;              /* the call had not begun */
} Loss;

void outcome_lost(Outcome *ret, const Loss *loss);

/* The call could not be run. `name` and the sentence say why. */
void outcome_failed(Outcome *ret, const char *name, const char *what, const char *why);

/* The call was interrupted before it began. */
void outcome_never_begun(Outcome *ret);

/* Its time limit had passed before it could begin. */
void outcome_too_late(Outcome *ret, double timeout);

/* Appends the sentence about the variables to the message (state_change_describe). */
void outcome_settle(Outcome *outcome, const StateChange *change);

/* Sets what the record says of the end, and of what became of the variables. `id` gets the id of a checkpoint
 * that is named there. */
void result_say(MsgExecuted *record, const Outcome *outcome, const StateChange *change,
                const Protection *protection, CheckpointId id);
