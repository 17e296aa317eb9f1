/* The questions of one cell to the client that runs it: checked, kept until they are answered, and bounded.
 */
#pragma once

#include "guest/supervisor/link/link.h"
#include "proto/base/list.h"

typedef enum AskMode {
    ASK_NOBODY,
    ASK_COUNT, /* the deadline runs while a question waits */
    ASK_PAUSE, /* it does not */
} AskMode;

typedef struct Asks {
    AskMode mode;
    List waiting; /* of Ask, oldest first */
    size_t count; /* questions in `waiting` */
    size_t asked; /* questions of the call so far */
} Asks;

void asks_init(Asks *asks, AskMode mode);
void asks_deinit(Asks *asks); /* nobody is asked any more */

/* 0, or -EPROTO with a Problem. */
int question_decode(MsgAsk *ret, const msgpack_object_map *body, Problem *problem);
int answer_decode(MsgAnswer *ret, const msgpack_object_map *body, Problem *problem);

/* The answer that the supervisor gives itself where nobody is asked, because of `why`. */
MsgAnswer question_refusal(const MsgAsk *question, const char *why);

/* Keeps a question of the call `id`. NULL, or why it is not asked. */
const char *asks_add(Asks *asks, uint64_t id, const MsgAsk *question);

/* An answer has come: its question waits no more. false: no question of that number waits. */
bool asks_take(Asks *asks, uint64_t ask);

/* Sends the questions that this controller has not been sent, oldest first. */
void asks_send(Asks *asks, Link *link);
bool asks_unsent(const Asks *asks);
void asks_send_again(Asks *asks); /* the next controller gets all that wait */

/* Appends to `frame` the `answer` that the interpreter gets, as its channel has it. 0, -ENOBUFS or -ENOMEM.
 */
int answer_encode(Buf *frame, uint64_t id, const MsgAnswer *answer);
