/* Request: one thing a client asked for. It is answered exactly once: request_reply and request_fail consume
 * it. Until then it may wait in one list at a time (its `link`). */
#pragma once

#include "host/link/listener.h"
#include "proto/base/list.h"
#include "proto/schema.h"

/* A directory of this machine that a request names, opened for its user. */
typedef struct RequestDirectory {
    List link;   /* Request.directories */
    char *named; /* as the request has it */
    char *path;  /* canonical */
    int fd;
} RequestDirectory;

typedef struct Request {
    List link;
    Listener *listener;
    Peer peer;
    uid_t user;  /* asker, and owner of the sessions that it is about */
    bool remote; /* from another machine: nothing of this one is the client's but sessions */
    uint64_t id;
    UserCharge *charge; /* of whoever asks, until it is answered */
    size_t bytes;       /* charged for it */
    MessageKind kind;   /* of the message */
    Buf message;        /* to be handled later, see front_park(); empty: it is not parked */
    List directories;   /* RequestDirectory */
    LoopTimer timer;    /* for requests that wait with a limit; cancelled when answered */
    void *owner;        /* of the timer */
} Request;

/* Returns whether the request may ask for `what`, which only a client on this machine may; if not, it is
 * answered. */
bool request_is_local(Request *request, const char *what);

/* Closes what was opened for it. */
void request_close_directories(Request *request);

/* Makes a request that a peer has just sent in a message of so many bytes. 0, -ENOMEM, or -EDQUOT when its
 * user has too many without an answer. */
int request_new(Request **ret, Listener *listener, Peer peer, uid_t user, uint64_t id, size_t bytes);

/* `body` is one encoded map; empty, for there was no memory for it: the request fails. */
void request_reply(Request *request, const Buf *body);
void request_reply_empty(Request *request);
/* The reply is a `type`. Where there is no memory for it the request fails. */
#define request_answer(request, type, from) request_reply_with(request, SCHEMA(type), (const type *){from})
void request_reply_with(Request *request, const Schema *schema, const void *body);
/* The same with a copy of a descriptor beside it: without, where there is none (-1) or the peer does not take
 * it at once. */
#define request_answer_passing(request, type, from, fd)                                                      \
    request_reply_passing(request, SCHEMA(type), (const type *){from}, fd)
void request_reply_passing(Request *request, const Schema *schema, const void *body, int fd);
void request_fail(Request *request, const Problem *problem);
void request_fail_text(Request *request, ErrorCode code, const char *format, ...) _printf_(3, 4);

/* Frees it without an answer: the connection is about to end, and the client asks the next controller. */
void request_forget(Request *request);

/* FileFailed carries the error as the kernel calls it, such as ENOENT, and the path (absent: none). */
void request_fail_file(Request *request, const Problem *problem, const char *symbol, Text path);

/* TemplateFailed carries the traceback of the setup code (absent: none). */
void request_fail_traceback(Request *request, const Problem *problem, Text traceback);
/* InstallFailed carries what the installer wrote. */
void request_fail_log(Request *request, const Problem *problem, Text log);

/* OptionsDiffer carries the names of the options, n of them. */
void request_fail_options(Request *request, const Problem *problem, const char *const *names, size_t n);

/* Sends an event of the request. -EHOSTUNREACH when the client is gone. */
int request_event(Request *request, MessageKind kind, Text body);

/* Answers a message for which no Request could be made. */
void peer_fail(Listener *listener, Peer peer, uint64_t id, const Problem *problem);
