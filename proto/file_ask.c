#include "proto/file_ask.h"

int file_ask_op(const MsgFileAsk *ask, Problem *problem)
{
    const bool given[] = {
#define FILE_OP(member, name, reply) [FILE_##name] = ask->has_##member,
#include "proto/file_ops.def"
#undef FILE_OP
    };
    int found = -1;

    for (int i = 0; i < FILE_OPS; i++) {
        if (given[i] && found >= 0)
            return problem_set(problem, ERR_BAD_REQUEST, "`files` asks for one thing at a time");
        if (given[i])
            found = i;
    }
    return found < 0 ? problem_set(problem, ERR_BAD_REQUEST, "`files` asks for nothing") : found;
}

const Schema *file_reply_schema(FileOp op)
{
    switch (op) {
#define FILE_OP(member, name, reply)                                                                         \
    case FILE_##name:                                                                                        \
        return SCHEMA(reply);
#include "proto/file_ops.def"
#undef FILE_OP
    case FILE_OPS:
        break;
    }
    return SCHEMA(MsgNothing);
}

bool file_is_data(Text path)
{
    const Text data = text_of("/data");

    return path.size >= data.size && memcmp(path.data, data.data, data.size) == 0 &&
           (path.size == data.size || path.data[data.size] == '/');
}
