/* Turn: what a sandbox does one at a time, in the order asked for. Each is embedded in what it is about: a
 * call, which runs code, or an order, which is about the variables. Those that are about commands and
 * processes go on beside them, and beside each other.
 *
 *   WAITING ── its turn comes ──► PREPARING ── sent ──► SENT ── the supervisor's answer ──► ANSWERED ──► over
 *      └───────────────────── sent before its turn comes ─────►┘
 *
 * Work is what a turn has going on outside the loop: a publication, a copy of files. A turn has at most one.
 * It is the turn's as long as both last: a turn that ends first abandons it, and whatever comes of it then is
 * nobody's, and freed by whoever made it. */
#pragma once

#include "proto/base/list.h"
#include "proto/base/problem.h"
#include "proto/wire.h"

typedef struct Sandbox Sandbox;
typedef struct Session Session;
typedef struct Turn Turn;

typedef enum TurnState {
    TURN_WAITING,
    TURN_PREPARING, /* its work comes first */
    TURN_SENT,      /* the supervisor has it */
    TURN_ANSWERED,  /* and has said how it ended; work may follow */
    TURN_OVER,
} TurnState;

typedef struct TurnOps {
    bool outlives_session; /* goes on when its session is closed while it runs */
    bool beside;           /* waits for no other, and no other waits for it */
    /* Returns whether its session may end for idleness although the turn goes on; NULL: it may not. */
    bool (*is_idle)(const Turn *turn);
    /* Its turn has come, and the supervisor takes it: it runs, until sandbox_take_out(). */
    void (*start)(Turn *turn);
    /* Handles a message about the turn while it is SENT. -EPROTO with the problem set when no honest
     * supervisor sends it. */
    int (*message)(Turn *turn, const Message *message, Problem *problem);
    /* The connection broke while it was SENT, and the supervisor does not name it among its commands. NULL:
     * the supervisor says again how it ended. */
    void (*disconnected)(Turn *turn);
    /* Ends the turn, as its sandbox cannot be had. */
    void (*fail)(Turn *turn, const Problem *problem);
    /* Its session ends; ends it. */
    void (*end)(Turn *turn, const char *reason);
    /* Its sandbox is left to the next controller; frees it. */
    void (*leave)(Turn *turn);
} TurnOps;

typedef struct Work {
    Turn *turn; /* NULL once abandoned */
} Work;

struct Turn {
    List link; /* Sandbox.turns while it waits, or Sandbox.beside */
    const TurnOps *ops;
    Sandbox *sandbox;
    Session *session; /* that it is of: nothing here looks into it. NULL once that is gone */
    TurnState state;
    bool interrupted; /* the supervisor was asked to end it */
    uint64_t number;  /* of its message to the supervisor, once it is sent */
    Work *work;       /* NULL: none */
};

static inline void turn_init(Turn *turn, const TurnOps *ops, Sandbox *sandbox, Session *session)
{
    list_init(&turn->link);
    turn->ops = ops;
    turn->sandbox = sandbox;
    turn->session = session;
}

static inline void work_begin(Work *work, Turn *turn)
{
    work->turn = turn;
    turn->work = work;
}

static inline void work_end(Work *work)
{
    if (work->turn)
        work->turn->work = NULL;
    work->turn = NULL;
}

static inline void turn_abandon_work(Turn *turn)
{
    if (turn->work)
        work_end(turn->work);
}
