/* Orders: what the controller asks for besides calls. One that takes time is the only thing under way: it
 * takes its next step whenever something has happened that it may wait for.
 *
 *   order.c             what they have in common
 *   order_checkpoint.c  checkpoint, checkpoints, drop, rollback
 *   order_branch.c      branch, commit, close, reset
 *   order_namespace.c   namespace */
#pragma once

#include "guest/supervisor/checkpoint.h"
#include "guest/supervisor/fate.h"
#include "guest/supervisor/link.h"
#include "proto/schema.h"

typedef struct Branch Branch;
typedef struct Order Order;
typedef struct Supervisor Supervisor;

struct Order {
    void (*step)(Supervisor *supervisor, Order *order); /* NULL: none is under way */
    uint64_t id;                                        /* of the message */
    Branch *branch;                                     /* that it is about */
    Branch *from;
    Branch *made;           /* by it, and to be ended should it fail */
    uint64_t number;        /* of the branch to be, or of the checkpoint to go back to */
    uint64_t epoch;         /* of the branch when its interpreter was asked */
    Checkpoint *checkpoint; /* that it uses or has asked for; NULL again when that is gone */
    bool asked;             /* the interpreter, or for the checkpoint */
    bool started;           /* an interpreter, for there was none */
    bool implicit;          /* the checkpoint was taken for this order only */
    char name[LIMIT_SESSION_NAME + 1];
    Reason trouble; /* why the checkpoint is gone */
    LoopTimer limit;
};

/* From the controller. 0: it has been answered or will be. -EPROTO with a Problem: it is refused. */
typedef int (*OrderHandler)(Supervisor *supervisor, const Message *message, Problem *problem);

/* NULL when there is no such order. */
OrderHandler order_handler(MessageKind kind);

bool order_is_active(const Order *order);
void order_advance(Supervisor *supervisor);
void order_on_gone(Order *order, const Checkpoint *checkpoint, const char *why);
int order_on_namespace(Branch *branch, const Message *message, Problem *problem);
/* What it was about is gone: it is answered with an error. */
void order_cancel(Supervisor *supervisor, const char *why);
void order_deinit(Order *order);

/* Among the orders themselves */

/* Begins one. -EPROTO with a Problem when something is under way. */
int order_begin(Supervisor *supervisor, const Message *message, void (*step)(Supervisor *, Order *),
                Problem *problem);

/* Waits for the branch's interpreter, which is started if there is none. 1: it is ready. 0: later. Negative:
 * the order has been answered with an error. */
int order_await(Supervisor *supervisor, Branch *branch);

/* Waits for order->checkpoint, one of exactly the branch's live state; it is asked for first unless `reuse`
 * and there is one. As order_await(). */
int order_take_checkpoint(Supervisor *supervisor, Branch *branch, CheckpointKind kind, bool reuse);

/* The order is over. */
void order_done(Supervisor *supervisor);
void order_refuse(Supervisor *supervisor, ErrorCode code, const char *format, ...) _printf_(3, 4);
/* Its answer, a `type`. 0, or as link_say(). */
#define order_answer(supervisor, id, type, from) controller_reply(&(supervisor)->controller, id, type, from)

int order_find_branch(Branch **ret, Supervisor *supervisor, uint64_t number, Problem *problem);
int order_find_checkpoint(Checkpoint **ret, Supervisor *supervisor, Text id_or_name, Problem *problem);

int order_checkpoint(Supervisor *supervisor, const Message *message, Problem *problem);
int order_checkpoints(Supervisor *supervisor, const Message *message, Problem *problem);
int order_drop(Supervisor *supervisor, const Message *message, Problem *problem);
int order_rollback(Supervisor *supervisor, const Message *message, Problem *problem);
int order_branch(Supervisor *supervisor, const Message *message, Problem *problem);
int order_commit(Supervisor *supervisor, const Message *message, Problem *problem);
int order_close(Supervisor *supervisor, const Message *message, Problem *problem);
int order_reset(Supervisor *supervisor, const Message *message, Problem *problem);
int order_namespace(Supervisor *supervisor, const Message *message, Problem *problem);
