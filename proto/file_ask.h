/* FileAsk: which of the things that can be asked about files is asked, and what its reply is. */
#pragma once

#include "proto/schema.h"

typedef enum FileOp {
#define FILE_OP(member, name, reply) FILE_##name,
#include "proto/file_ops.def"
#undef FILE_OP
    FILE_OPS,
} FileOp;

/* The one thing that is asked; -EPROTO with a BAD_REQUEST unless it is one. */
int file_ask_op(const MsgFileAsk *ask, Problem *problem);

/* The reply to any of them. */
typedef union FileReply {
#define FILE_OP(member, name, reply) reply member;
#include "proto/file_ops.def"
#undef FILE_OP
} FileReply;

const Schema *file_reply_schema(FileOp op);

/* file_reply_decode() fills a FileReply as body_decode() does. */
static inline int file_reply_decode(FileReply *ret, FileOp op, const msgpack_object_map *body,
                                    Problem *problem)
{
    return schema_decode(ret, file_reply_schema(op), body, problem);
}

/* Returns whether a path in the container is /data or below it, where the controller writes what clients put.
 */
bool file_is_data(Text path);
