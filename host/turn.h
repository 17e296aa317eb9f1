/* Turn: what a sandbox does one at a time, in the order asked for: a Call, which runs code, or an Order,
 * which is about the variables and is answered by the supervisor. Each is embedded in one of them.
 *
 * Work is what a turn has going on outside the loop: a publication, a copy of files. A turn has at most one.
 * It is the turn's as long as both last: a turn that ends first abandons it, and whatever comes of it then is
 * nobody's, and freed by whoever made it. */
#pragma once

#include "proto/base/list.h"

typedef struct Session Session;

typedef enum TurnKind {
    TURN_CALL,
    TURN_ORDER,
} TurnKind;

typedef struct Turn Turn;

typedef struct Work {
    Turn *turn; /* NULL once abandoned */
} Work;

struct Turn {
    List link; /* Sandbox.turns while it waits */
    TurnKind kind;
    Session *session; /* that it is of */
    uint64_t
        number; /* of its message to the supervisor; 0 until that is sent, and once an order is answered */
    Work *work; /* NULL: none */
};

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
