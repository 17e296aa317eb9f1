/* Errand: what a supervisor is asked beside its turns, at any time. Some are under way at once, the others
 * wait for those. An answer that is lost with the connection does not come again: the errand fails. */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/list.h"
#include "proto/base/problem.h"
#include "proto/wire.h"

typedef struct Sandbox Sandbox;
typedef struct Errand Errand;

typedef struct ErrandOps {
    /* The supervisor's answer; ends in errand_over(). -EPROTO with the problem set when no honest one says
     * that; `failed` follows. */
    int (*answer)(Errand *errand, const Message *message, Problem *problem);
    /* There will be none; ends in errand_over(). */
    void (*failed)(Errand *errand, const Problem *problem);
} ErrandOps;

/* Lanes of errands: those of one kind wait for each other, so that none that takes long holds up another
 * kind. */
typedef enum ErrandLane {
    ERRAND_SHORT,
    ERRAND_WATCH,   /* for what happens to files */
    ERRAND_PROCESS, /* for what a process writes or reads, or for a port */
    ERRAND_LANES,
} ErrandLane;

struct Errand {
    List link; /* Errands.waiting or .sent */
    const ErrandOps *ops;
    Sandbox *sandbox;
    MessageKind kind;
    Buf body; /* an encoded map: what the supervisor is sent */
    ErrandLane lane;
    uint64_t number; /* of its message to the supervisor, once it is sent */
};

/* Errands of a sandbox. */
typedef struct Errands {
    List waiting, sent;
    size_t waiting_count, sent_count[ERRAND_LANES];
} Errands;

void errands_init(Errands *errands);

/* Sends it, now or when it can be. `ops`, `kind`, `body` and `lane` are set, and it is in no list. -EBUSY,
 * and nothing done, when too many wait. */
int errand_begin(Errand *errand, Sandbox *sandbox);

/* Forgets an errand that was answered or has failed, and sends the next one. Its owner frees it. */
void errand_over(Errand *errand);

/* The sandbox is ready. */
void errands_resume(Sandbox *sandbox);
/* The errand that was sent with that message, or NULL. */
Errand *errands_find(const Sandbox *sandbox, uint64_t number);
/* Fails those that were sent before the message of that number. */
void errands_disconnect(Sandbox *sandbox, uint64_t number);
void errands_fail_all(Sandbox *sandbox, const Problem *problem);
