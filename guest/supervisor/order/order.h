/* Orders: what the controller asks for besides calls. One that takes time is the only thing under way: it
 * waits for one thing at a time, and takes its next step when that is there.
 *
 *   order.c       what they have in common
 *   checkpoint.c  checkpoint, checkpoints, drop, rollback
 *   branch.c      branch, commit
 *   reset.c       close, reset
 *   namespace.c   namespace */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/call/calls.h"
#include "guest/supervisor/link/link.h"

typedef struct Orders Orders;

typedef enum OrderAwaits {
    AWAITS_NOTHING,     /* no order is under way */
    AWAITS_INTERPRETER, /* the branch's, which is started if there is none */
    AWAITS_LISTENER,    /* likewise, and it has answered when it was asked for a checkpoint before */
    AWAITS_CHECKPOINT,  /* `checkpoint` is to be kept */
    AWAITS_BRANCH,      /* the branch is to be where it goes back to */
    AWAITS_ANSWER,      /* of the interpreter */
} OrderAwaits;

typedef struct Order {
    OrderAwaits awaits;
    void (*next)(Orders *orders);  /* the step that follows */
    uint64_t id;                   /* of the message */
    Branch *branch;                /* the one that is waited for */
    Branch *into;                  /* commit: the one whose place it takes */
    Branch *made;                  /* by this order, and to be ended should it fail */
    uint64_t number;               /* of the branch to be, or of the checkpoint to go back to */
    uint64_t epoch;                /* of the branch when its interpreter was asked */
    Checkpoint *checkpoint;        /* that it uses or has asked for; NULL again when that is gone */
    bool started;                  /* an interpreter, for there was none */
    CheckpointKind kind;           /* of the checkpoint that it takes */
    bool implicit;                 /* the checkpoint was taken for this order only */
    void (*taken)(Orders *orders); /* the step that follows on that */
    char name[LIMIT_SESSION_NAME + 1];
    Reason trouble; /* why the checkpoint is gone */
    LoopTimer limit;
} Order;

struct Orders {
    Branches *branches;
    Calls *calls;
    Link *link;
    Order order;
};

/* All three outlive it. */
void orders_init(Orders *orders, Branches *branches, Calls *calls, Link *link);
void orders_deinit(Orders *orders);

/* From the controller. 0: it has been answered or will be. -EPROTO with a Problem: it is refused. */
typedef int (*OrderHandler)(Orders *orders, const Message *message, Problem *problem);

/* NULL when there is no such order. */
OrderHandler order_handler(MessageKind kind);

bool orders_are_active(const Orders *orders);

/* From the branches, as BranchEvents has them */

void orders_advance(Orders *orders); /* what the order waits for may be there */
void orders_on_gone(Orders *orders, const Checkpoint *checkpoint, const char *why);
int orders_on_namespace(Orders *orders, Branch *branch, const Message *message, Problem *problem);
/* The branch has an interpreter, or will have none: a reset that waits for it is answered. */
void orders_on_started(Orders *orders, Branch *branch);
