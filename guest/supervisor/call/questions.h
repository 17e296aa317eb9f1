/* Questions: those of one cell to the client that runs it: checked, kept until they are answered, and
 * bounded.
 */
#pragma once

#include "guest/supervisor/link/link.h"
#include "proto/ask_mode.h"
#include "proto/base/list.h"

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
