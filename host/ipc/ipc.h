/* Ipc: one end of a stream between two processes of limpetd, neither of which trusts what the other sends. A
 * frame is one message of the wire (proto/wire.h), whose kinds and schemas are those of the two, behind its
 * size and with a few descriptors.
 *
 * Two ways to have an answer: a message with the same id comes back, as both agree; or the answer comes over
 * a socket of its own, for which ipc_ask_later() has the loop wait, and ipc_ask() waits itself. */
#pragma once

#include <pthread.h>

#include "proto/base/list.h"
#include "proto/base/loop.h"
#include "proto/fields.h"

#define IPC_DESCRIPTORS_MAX 8u

/* Descriptors that go with a message: whoever handles it takes out what it keeps, the rest is closed. */
typedef struct Descriptors {
    int fd[IPC_DESCRIPTORS_MAX];
    size_t n;
} Descriptors;

/* Adds one, which is taken over; none where it is -1. */
void descriptors_add(Descriptors *descriptors, int fd);
/* Returns the descriptor, the caller's from now on; -1 when it did not come, or was taken. */
int descriptors_take(Descriptors *descriptors, size_t i);
void descriptors_close(Descriptors *descriptors);

typedef struct Ipc Ipc;

typedef struct IpcEvents {
    /* A message, within the limits of the wire; its kind and body are still to be looked at. Negative: no
     * honest peer sends that, and the connection is lost by it. The Ipc may be closed in here, though not
     * freed; so below. */
    int (*message)(Ipc *ipc, const Message *message, Descriptors *descriptors);
    /* Nothing more comes, and nothing can be sent: the peer is gone (-EPIPE), does not read (-ENOBUFS), or
     * has sent what is no message (another negative errno). */
    void (*lost)(Ipc *ipc, int error);
    /* A frame that is not decoded, in place of `message`. The bytes are the callee's. */
    int (*frame)(Ipc *ipc, Buf *bytes, Descriptors *descriptors);
} IpcEvents;

typedef struct IpcLimits {
    size_t frame; /* bytes of one that comes */
    size_t out;   /* nothing is taken while more bytes than that are left to be sent */
    size_t most;  /* a peer that leaves more than that is lost */
} IpcLimits;

/* Messages of up to IPC_MESSAGE_MAX bytes. */
#define IPC_MESSAGE_MAX (64u << 10)
extern const IpcLimits ipc_messages;

/* The frame that is being read, and its descriptors. */
typedef struct IpcInput {
    Buf bytes;
    Descriptors came;
} IpcInput;

struct Ipc {
    LoopFile file; /* its loop is NULL when it is closed */
    LoopIdle idle; /* tells of the loss */
    const IpcEvents *events;
    IpcLimits limits;
    IpcInput in;
    bool paused;
    int error; /* negative errno once it is lost */

    pthread_mutex_t mutex; /* guards what follows: questions come from any thread */
    List out;              /* Frame: what the peer has not taken yet */
    size_t out_bytes;      /* memory of that, about */
};

/* Makes a pair of sockets, closed on exec. 0 or a negative errno. */
int ipc_pair(int ret[2]);

/* Serves one end of it on the loop and owns that from now on, after a failure too. 0 or a negative errno. */
int ipc_open(Ipc *ipc, Loop *loop, int fd, const IpcLimits *limits, const IpcEvents *events);
void ipc_close(Ipc *ipc);

/* Sends a message of that kind, and copies of `n` descriptors with it. Never waits: what the peer does not
 * take now goes later, in order. 0; -ENOBUFS and -EPIPE, of which the event tells as well; -EMSGSIZE; or as
 * message_append() has it. */
int ipc_send(Ipc *ipc, unsigned kind, uint64_t id, const Schema *schema, const void *body,
             const int *descriptors, size_t n);

/* Sends an encoded message of any size, which is taken over with its descriptors. As ipc_send. */
int ipc_send_frame(Ipc *ipc, Buf *bytes, Descriptors *descriptors);

/* Sends one message over a socket of such a pair that is nobody's Ipc. Never waits. 0 or a negative errno. */
int ipc_send_over(int socket, unsigned kind, const Schema *schema, const void *body, const int *descriptors,
                  size_t n);

/* Takes no frames for now, or again. */
void ipc_pause(Ipc *ipc, bool paused);

/* Ends it for that reason, of which the event tells. */
void ipc_lose(Ipc *ipc, int error);

/* Waits until there is something to be taken or to be sent, and does that; or so many milliseconds (-1: any
 * number). */
void ipc_wait(Ipc *ipc, int milliseconds);

/* ---- questions ---- */

/* Answer to a question. */
typedef struct IpcAnswer {
    Message message;
    Descriptors descriptors;
    Buf bytes; /* of the message */
} IpcAnswer;

#define IPC_ANSWER_NULL ((IpcAnswer){.message = MESSAGE_NULL})
void ipc_answer_deinit(IpcAnswer *answer);

/* Sends a message and waits for what answers it, over a socket of its own that goes along as the last
 * descriptor: from any thread, any number at once. 0; -EPIPE when the peer ended instead; -ETIMEDOUT;
 * another negative errno. */
int ipc_ask(Ipc *ipc, unsigned kind, const Schema *schema, const void *body, const int *descriptors, size_t n,
            double seconds, IpcAnswer *ret);

/* IpcQuestion: one that the loop waits for; none while it is zero. */
typedef struct IpcQuestion IpcQuestion;
struct IpcQuestion {
    LoopFile file; /* the socket of its answer */
    IpcInput in;
    /* `error` is 0 with the answer, of which the callee takes what it keeps, or as ipc_ask() has it. The
     * question is over and may be freed. */
    void (*done)(IpcQuestion *question, int error, IpcAnswer *answer);
};

/* Asks and does not wait: `done` follows, never from within this. 0, or a negative errno and nothing follows.
 */
int ipc_ask_later(Ipc *ipc, IpcQuestion *question, unsigned kind, const Schema *schema, const void *body,
                  const int *descriptors, size_t n, void (*done)(IpcQuestion *, int, IpcAnswer *));
/* Has nothing follow. */
void ipc_question_drop(IpcQuestion *question);

/* Returns whether a socket was made by that process as one of a pair of ipc_pair(). What is connected to
 * another program, in whose eyes what is said would be ours, is not. */
bool ipc_is_made_by(int fd, pid_t peer);

/* Answers a question over its socket, which is closed. Never waits. `peer` is the process that may have made
 * the socket: what is connected to anybody else's gets no answer. 0 or a negative errno. */
int ipc_answer(int socket, pid_t peer, unsigned kind, const Schema *schema, const void *body,
               const int *descriptors, size_t n);
