/* Order: a client's request on the variables of a session. It takes its turn among the calls, is sent to the
 * supervisor in its own words, and what that replies becomes the client's reply. The file of its op in
 * host/front/ops/ knows both; what the op remembers meanwhile is a struct that begins with the Order. */
#pragma once

#include "host/link/request.h"
#include "host/session/session.h"
#include "proto/schema.h"

typedef struct Order Order;

typedef struct OrderOps {
    MessageKind kind;
    double seconds; /* within which the supervisor answers; 0: as most do */
    /* Its turn has come: ends in order_send() or order_fail(), now or later. NULL: order_send(). */
    void (*start)(Order *order);
    /* The supervisor's reply: ends in order_reply() or order_fail(), now or later. Negative with the problem
     * set when no honest supervisor says that; the order is then not answered. */
    int (*answer)(Order *order, const msgpack_object_map *reply, Problem *problem);
    /* The supervisor refused: ends in order_fail(), now or later. NULL: order_fail(). */
    void (*refused)(Order *order, const Problem *problem);
    /* The order is about to be freed: answered, or with `problem` not done. Its AsyncStep is detached. May be
     * NULL. */
    void (*over)(Order *order, const Problem *problem);
} OrderOps;

struct Order {
    GuestRequest to_guest;
    const OrderOps *ops;
    Request *request; /* NULL when nobody waits for the answer */
};

/* `size` bytes, zero but for the Order they begin with. The request is the order's; it is answered, and NULL
 * returned, when there is no memory. */
void *order_new(size_t size, const OrderOps *ops, Session *session, Request *request);

/* Returns whether a request is an order of that kind. */
bool order_is(const GuestRequest *to_guest, const OrderOps *ops);

/* Queues it, which is its session's from now on; answers it with ERR_BUSY when too many wait. */
void order_queue(Order *order);

/* Sets what the supervisor is sent, a `type`. Without memory for it the order fails when it is to be sent. */
#define order_set_body(order, type, from) order_write(order, SCHEMA(type), (const type *){from})
void order_write(Order *order, const Schema *schema, const void *body);
/* Sets a body that is nothing but the branch of the order's session. */
void order_set_branch(Order *order);

/* Sends it, or the order fails. */
void order_send(Order *order);

/* Answers and frees it; the next request starts. `body` is one encoded map; NULL is an empty one. */
void order_reply(Order *order, const Buf *body);
/* The same with a `type`. */
#define order_answer(order, type, from) order_reply_with(order, SCHEMA(type), (const type *){from})
void order_reply_with(Order *order, const Schema *schema, const void *body);
void order_fail(Order *order, const Problem *problem);
