/* Op: what the controller does for one kind of request. One file per op in host/ops/; the table is ops.c. */
#pragma once

#include "host/front/front.h"

typedef struct Op {
    MessageKind kind;
    /* Owns the request. The body is valid during the call. */
    void (*handle)(Front *front, Request *request, const msgpack_object_map *body);
} Op;

extern const Op op_hello, op_open, op_run, op_interrupt, op_reset, op_close, op_sessions, op_result, op_put,
    op_get, op_shutdown, op_checkpoint, op_checkpoints, op_rollback, op_drop, op_branch, op_commit,
    op_namespace;

/* NULL when clients may not send this kind. */
const Op *op_find(MessageKind kind);

/* Decodes the body into *ret, a `type`; answers the request and returns false when it does not fit. */
#define op_decode(request, ret, type, body) op_decode_as(request, (type *){ret}, SCHEMA(type), body)
bool op_decode_as(Request *request, void *ret, const Schema *schema, const msgpack_object_map *body);

/* The open session a request names, by `session` and, where given, the life of it by `instance`. Answers the
 * request and returns NULL when there is none. */
/* Refuses a request about a session that ended by itself, saying when and why. False, and nothing done, when
 * that is not known of the name. */
bool op_refuse_ended(Front *front, Request *request, Text name);

Session *op_session(Front *front, Request *request, Text name, Text instance);

/* The same for a request that names a session and nothing else. */
Session *op_target(Front *front, Request *request, const msgpack_object_map *body);

/* The same for one that also names a checkpoint, by its id or name. */
Session *op_checkpoint_target(Front *front, Request *request, const msgpack_object_map *body,
                              char ret_checkpoint[static LIMIT_SESSION_NAME + 1]);
