/* Op: what the controller does for one kind of request. They are in host/front/ops/, and their table in
 * front.c. */
#pragma once

#include "host/front/front.h"
#include "host/session/order.h"

typedef struct Op {
    MessageKind kind;
    bool lets_sleep; /* a session that is saved stays so */
    /* Owns the request. The body is valid during the call. */
    void (*handle)(Front *front, Request *request, const msgpack_object_map *body);
} Op;

extern const Op op_hello, op_open, op_run, op_exec, op_interrupt, op_reset, op_close, op_sessions, op_result,
    op_put, op_get, op_shutdown, op_checkpoint, op_checkpoints, op_rollback, op_drop, op_branch, op_context,
    op_commit, op_namespace, op_files, op_start, op_processes, op_process, op_connect, op_template,
    op_templates, op_remove_template, op_set_network, op_save, op_load, op_export, op_install, op_artifact,
    op_sleep, op_fork;

/* Decodes the body into *ret, a `type`; answers the request and returns false when it does not fit. */
#define op_decode(request, ret, type, body) op_decode_as(request, (type *){ret}, SCHEMA(type), body)
bool op_decode_as(Request *request, void *ret, const Schema *schema, const msgpack_object_map *body);

/* Refuses a request about a session that ended by itself, saying when and why. False, and nothing done, when
 * that is not known of the name. */
bool op_refuse_ended(Front *front, Request *request, Text name);

/* Finds the open directory that a request names as data, if it names any: NULL where not. False when it is
 * not open yet, and then the request is parked, to be handled anew when it is; or when its user cannot have
 * it, and the request is answered. What is found is the request's. */
bool op_find_data(Front *front, Request *request, const msgpack_object_map *body, Text named,
                  const RequestDirectory **ret);
/* The same of options, which get its canonical path. */
bool op_find_data_of(Front *front, Request *request, const msgpack_object_map *body, MsgOptions *options,
                     const RequestDirectory **ret);

/* The open session of the user that a request names, by `session` and, where given, the life of it by
 * `instance`. Answers the request and returns NULL when there is none. */
Session *op_session(Front *front, Request *request, Text name, Text instance);

/* Decodes the body into *ret, a `type`, and finds the session that it is about. As both of them. */
#define op_decode_session(front, request, ret, type, body)                                                   \
    (op_decode(request, ret, type, body) ? op_session(front, request, (ret)->session, (ret)->instance) : NULL)

/* The same for a request that names a session and nothing else. */
Session *op_target(Front *front, Request *request, const msgpack_object_map *body);

/* Forgets the uploads that a client has begun and not ended, as the client is gone. */
void uploads_client_gone(Front *front, Peer peer);

/* ---- pieces of files that clients fetch: a few of one connection at once, and none while the client leaves
 * much unread; the requests for others wait, and the controller does not hold what they would bring ---- */

/* Bytes that a client may have left unread when one is begun, with those to come of others: what is written
 * to it is moved as it grows, while everybody waits. */
#define PIECES_UNREAD ((size_t)1 << 20)

typedef struct Piece {
    Front *front;
    struct PiecesOfPeer *of;
    Request *request;
} Piece;

/* Begins one for the request. NULL when that is parked, to be handled anew later, or has failed. */
Piece *piece_begin(Front *front, Request *request, const msgpack_object_map *body);
/* Frees one whose request has been answered, and has the next one begin. */
void piece_end(Piece *piece);

/* The client has read all but that. */
void pieces_resume(Front *front, Peer peer);
/* The client is gone: its requests that wait are forgotten. */
void pieces_client_gone(Front *front, Peer peer);
/* The controller is closing: all that wait fail. */
void pieces_shut_down(Front *front);

/* ---- queries: what is asked of a session's supervisor beside its calls, for a client ---- */

typedef struct Query {
    GuestRequest to_guest;
    Request *request;
    const Schema *reply;
} Query;

/* `size` bytes, zero but for the Query they begin with; the body is that of a `schema`. Answers the request
 * and returns NULL when there is no memory. */
void *query_new(size_t size, const GuestRequestOps *ops, GuestLane lane, MessageKind kind,
                const Schema *schema, const void *body, Request *request);
/* Asks. It is freed, and the request answered with that text, when too much is asked at once. */
void query_begin(Query *query, const Session *session, const char *busy);
/* Ends one, and returns its request, to be answered. */
Request *query_finish(Query *query);

/* For its operations. */
void query_fail(GuestRequest *to_guest, const Problem *problem);
int query_unexpected(const Message *message, Problem *problem);
