/* Orders: what the controller asks for besides calls. One that takes time is the only thing under way: it
 * waits for one thing at a time, and takes its next step when that is there.
 *
 *   order.c       what they have in common; close, reset, context, namespace
 *   checkpoint.c  checkpoint, checkpoints, drop, rollback, branch, commit
 *   saving.c      save, load */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/call/call.h"
#include "guest/supervisor/link/link.h"

typedef struct Orders Orders;

typedef enum OrderAwaits {
    AWAITS_NOTHING,     /* no order is under way */
    AWAITS_INTERPRETER, /* the branch has a ready interpreter; one is started if there is none */
    AWAITS_LISTENER,    /* likewise, and nobody waits for a checkpoint of it */
    AWAITS_CHECKPOINT,  /* `checkpoint` is kept */
    AWAITS_PLACE,       /* the interpreter is in the place of its branch, or has said why not */
    AWAITS_BRANCH,      /* the branch is where it goes back to */
    AWAITS_ANSWER,      /* the interpreter has answered */
    AWAITS_MEMORY,      /* `checkpoint` has been written to a file or made from one, or is gone */
} OrderAwaits;

typedef struct Order {
    OrderAwaits awaits;
    void (*next)(Orders *orders);  /* the step that follows */
    uint64_t id;                   /* the id of its message */
    Branch *branch;                /* the branch that is waited for */
    Branch *into;                  /* commit: the branch whose place it takes */
    Branch *made;                  /* a branch made by this order, which ends should the order fail */
    uint64_t new_branch;           /* branch: the number of the branch to be */
    uint64_t checkpoint_number;    /* rollback, load: of the checkpoint to go back to */
    uint64_t execution_count;      /* load: of the call whose state is loaded */
    uint64_t epoch;                /* of the branch when its interpreter was asked */
    uint64_t frozen_epoch;         /* the same, for the checkpoint */
    Checkpoint *checkpoint;        /* the checkpoint it uses or takes; NULL again when that is gone */
    CheckpointKind kind;           /* of the checkpoint that it takes */
    bool implicit;                 /* the checkpoint was taken for this order only */
    void (*taken)(Orders *orders); /* the step that follows when it is kept */
    char name[LIMIT_SESSION_NAME + 1];
    bool moves, loads; /* it is `save` or `load`; which */
    bool ends;         /* `save`: the sandbox is to end then */
    bool adds;         /* `save`: the memory is there already; it gives way to anything else */
    bool forks;        /* it goes on in both sandboxes */
    bool resumes;      /* `load`: the state is that of a session which goes on */
    bool memory;       /* the memory is written, or taken where it fits */
    char *path;        /* of the directory */
    int passed;        /* where the memory goes or comes from in place of that; -1: nothing was passed */
    int image;         /* the memory image that goes with the memory; -1: none */
    bool shares;       /* the memory is written without what is in such an image */
    Buf unreported;    /* `load`: what the branch has to tell then, an encoded map; empty: nothing */
    Reason trouble;    /* why the checkpoint is gone */
    LoopTimer limit;
} Order;

/* A reset that waits for the new interpreter of its branch. It comes at any time, and holds up nobody. */
typedef struct Reset {
    const Branch *branch; /* NULL: none waits */
    uint64_t id;          /* the id of its message */
} Reset;

struct Orders {
    Branches *branches;
    Calls *calls;
    Link *link;
    Order order;                      /* the one that is under way */
    bool ended;                       /* the memory was written, for the sandbox to end */
    Reset resets[LIMIT_BRANCHES + 2]; /* one for each branch; the session, and the one being made, included */
};

/* All three outlive it. */
void orders_init(Orders *orders, Branches *branches, Calls *calls, Link *link);
void orders_deinit(Orders *orders);

/* Takes an order of the controller. 0: it has been answered or will be. -EPROTO with a Problem: it is
 * refused. */
typedef int (*OrderHandler)(Orders *orders, const Message *message, Problem *problem);

/* NULL when there is no such order. */
OrderHandler order_handler(MessageKind kind);

static inline bool orders_are_active(const Orders *orders)
{
    return orders->order.awaits != AWAITS_NOTHING;
}

/* Returns whether the one under way is about that branch. */
bool orders_are_about(const Orders *orders, const Branch *branch);

/* Nobody waits for its answer, and what the next controller asks for need not either. */
void orders_on_controller_lost(Orders *orders);

/* From the branches, as BranchEvents has them */

void orders_advance(Orders *orders); /* the order goes on, if what it awaits is there */
void orders_on_gone(Orders *orders, const Checkpoint *checkpoint, const char *why);
int orders_on_namespace(Orders *orders, Branch *branch, const Message *message, Problem *problem);
int orders_on_moved(Orders *orders, Branch *branch, const Message *message, Problem *problem);
/* The branch has an interpreter, or will have none. A reset that waits for it is answered. */
void orders_on_started(Orders *orders, Branch *branch);

/* Between orders */

/* 0, or -EPROTO with a Problem when a call or an order is under way. */
int order_check_idle(const Orders *orders, Problem *problem);
/* Begins an order about `branch`. As order_check_idle(). */
int order_begin(Orders *orders, const Message *message, Branch *branch, Problem *problem);
/* The order goes on with `next` when what it awaits is there. */
void order_await(Orders *orders, OrderAwaits awaits, void (*next)(Orders *));
/* The order goes on with `next` when order->checkpoint is kept: one of exactly the branch's live state. It is
 * taken now, unless an automatic one will do and exists. */
void order_take_checkpoint(Orders *orders, CheckpointKind kind, void (*next)(Orders *));

/* The order is over. */
void order_done(Orders *orders);
void order_refuse(Orders *orders, ErrorCode code, const char *format, ...) _printf_(3, 4);
/* Ends the order that is under way with an error, because what it was about is gone. */
void order_cancel(Orders *orders, const char *why);

/* Something else is asked for, to which one gives way that only adds. */
static inline void orders_give_way(Orders *orders)
{
    if (orders->order.adds)
        order_cancel(orders, "the session is in use again");
}

/* Sends the order's answer, a `type`. 0, or as link_say(). */
#define order_answer(orders, id, type, from) link_reply((orders)->link, id, type, from)

int order_find_branch(Branch **ret, const Orders *orders, uint64_t number, Problem *problem);
/* Checks that there may be a new branch of that number. */
int order_check_new(const Orders *orders, uint64_t number, Problem *problem);
int order_find_checkpoint(Checkpoint **ret, const Orders *orders, Text id_or_name, Problem *problem);

/* Handlers, one for each kind */

int order_checkpoint(Orders *orders, const Message *message, Problem *problem);
int order_checkpoints(Orders *orders, const Message *message, Problem *problem);
int order_drop(Orders *orders, const Message *message, Problem *problem);
int order_rollback(Orders *orders, const Message *message, Problem *problem);
int order_branch(Orders *orders, const Message *message, Problem *problem);
int order_commit(Orders *orders, const Message *message, Problem *problem);
int order_move(Orders *orders, const Message *message, Problem *problem);

/* The interpreter has not done what it was asked for. */
void order_unanswered(Orders *orders, const char *why);
/* Likewise, for it is gone. */
void order_interpreter_lost(Orders *orders);
