/* What orders do for each other; nobody else includes this. */
#pragma once

#include "guest/supervisor/order/order.h"

/* order.c */

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
/* Sends the order's answer, a `type`. 0, or as link_say(). */
#define order_answer(orders, id, type, from) link_reply((orders)->link, id, type, from)

int order_find_branch(Branch **ret, const Orders *orders, uint64_t number, Problem *problem);
int order_find_checkpoint(Checkpoint **ret, const Orders *orders, Text id_or_name, Problem *problem);

/* One of each kind */

int order_checkpoint(Orders *orders, const Message *message, Problem *problem);
int order_checkpoints(Orders *orders, const Message *message, Problem *problem);
int order_drop(Orders *orders, const Message *message, Problem *problem);
int order_rollback(Orders *orders, const Message *message, Problem *problem);
int order_branch(Orders *orders, const Message *message, Problem *problem);
int order_commit(Orders *orders, const Message *message, Problem *problem);
int order_close(Orders *orders, const Message *message, Problem *problem);
int order_reset(Orders *orders, const Message *message, Problem *problem);
int order_namespace(Orders *orders, const Message *message, Problem *problem);
