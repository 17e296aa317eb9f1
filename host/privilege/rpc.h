/* Rpc: one end of a socket pair between two processes of limpetd, neither of which trusts what the other
 * sends. A packet is one message of the wire (proto/wire.h), whose kinds and schemas are those of the two,
 * with a few descriptors.
 *
 * Two ways to have an answer: a message with the same id comes back, as both agree; or rpc_ask(), which
 * waits. */
#pragma once

#include "proto/base/list.h"
#include "proto/base/loop.h"
#include "proto/fields.h"

#define RPC_PACKET_MAX      (64u << 10)
#define RPC_DESCRIPTORS_MAX 8u

/* Descriptors that came with a message: whoever handles it takes out what it keeps, the rest is closed. */
typedef struct Descriptors {
    int fd[RPC_DESCRIPTORS_MAX];
    size_t n;
} Descriptors;

/* Returns the descriptor, the caller's from now on; -1 when it did not come, or was taken. */
int descriptors_take(Descriptors *descriptors, size_t i);

typedef struct Rpc Rpc;

typedef struct RpcEvents {
    /* A message, within the limits of the wire; its kind and body are still to be looked at. Negative: no
     * honest peer sends that, and the connection is lost by it. The Rpc may be closed in here, though not
     * freed; so below. */
    int (*message)(Rpc *rpc, const Message *message, Descriptors *descriptors);
    /* Nothing more comes, and nothing can be sent: the peer is gone (-EPIPE), does not read (-ENOBUFS), or
     * has sent what is no message (another negative errno). */
    void (*lost)(Rpc *rpc, int error);
} RpcEvents;

struct Rpc {
    LoopFile file;
    LoopIdle idle; /* tells of the loss */
    const RpcEvents *events;
    List queue; /* Packet: what the peer has not taken yet */
    size_t queued;
    int error; /* negative errno once it is lost */
};

/* Makes a pair of sockets, closed on exec. 0 or a negative errno. */
int rpc_pair(int ret[2]);

/* Serves one end of it on the loop and owns that from now on, after a failure too. 0 or a negative errno. */
int rpc_open(Rpc *rpc, Loop *loop, int fd, const RpcEvents *events);
void rpc_close(Rpc *rpc);

/* Sends a message of that kind, and copies of `n` descriptors with it. Never waits: what the peer does not
 * take now goes later, in order. 0; -ENOBUFS and -EPIPE, of which the event tells as well; -EMSGSIZE; or as
 * message_append() has it. */
int rpc_send(Rpc *rpc, unsigned kind, uint64_t id, const Schema *schema, const void *body,
             const int *descriptors, size_t n);

/* Sends one message over a socket of such a pair that is nobody's Rpc. Never waits. 0 or a negative errno. */
int rpc_send_over(int socket, unsigned kind, const Schema *schema, const void *body, const int *descriptors,
                  size_t n);

/* Ends it for that reason, of which the event tells. */
void rpc_lose(Rpc *rpc, int error);

/* ---- questions ---- */

/* Answer to a question. */
typedef struct RpcAnswer {
    Message message;
    Descriptors descriptors;
    uint8_t *bytes; /* of the message */
} RpcAnswer;

#define RPC_ANSWER_NULL ((RpcAnswer){.message = MESSAGE_NULL})
void rpc_answer_deinit(RpcAnswer *answer);

/* Sends a message and waits for what answers it, over a socket of its own that goes along as the last
 * descriptor: from any thread, any number at once. 0; -EPIPE when the peer ended instead; -ETIMEDOUT;
 * another negative errno. */
int rpc_ask(const Rpc *rpc, unsigned kind, const Schema *schema, const void *body, const int *descriptors,
            size_t n, double seconds, RpcAnswer *ret);

/* Answers a question over its socket, which is closed. Never waits. `peer` is the process that may have made
 * the socket: what is connected to anybody else's gets no answer. 0 or a negative errno. */
int rpc_answer(int socket, pid_t peer, unsigned kind, const Schema *schema, const void *body,
               const int *descriptors, size_t n);
