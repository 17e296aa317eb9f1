/* Asks: the questions of a cell to the client that runs it. The controller looks into neither question nor
 * answer. A question waits here until it is answered, so that a client that joins the call later gets it. */
#pragma once

#include "host/link/request.h"
#include "proto/ask_mode.h"
#include "proto/wire.h"

typedef struct Call Call;
typedef struct Calls Calls;

/* Of one call. */
typedef struct Asks {
    AskMode mode;     /* what its supervisor is told */
    Request *request; /* the one of Call.joined that is asked, or NULL */
    List waiting;     /* questions, in the order they came */
    size_t waiting_count;
    uint64_t asked; /* questions in all */
    List in_asking; /* Calls.asking */
} Asks;

void asks_begin(Asks *asks);

/* From now on this request of Call.joined is asked, and first what waits. */
void asks_join(Call *call, Request *request, AskMode mode);

/* The supervisor of the running call passes a question on. -EPROTO with the problem set when no honest one
 * does. */
int asks_question(Call *call, const msgpack_object_map *body, Problem *problem);

/* A client's answer to a question of the run request `id`; one that nobody waits for is ignored. */
void asks_answer(Calls *all, Peer peer, uint64_t id, const msgpack_object_map *body);

/* The call is being interrupted: its supervisor's time counts although questions wait. */
void asks_interrupt(Call *call);

/* The call has ended, and its questions with it. */
void asks_end(Asks *asks);
