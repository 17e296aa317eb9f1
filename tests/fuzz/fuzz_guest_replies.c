/* What a hostile supervisor may reply to requests on the state: it is refused, or what clients are told of it
 * is itself a valid body. */
#include <assert.h>
#include <stdlib.h>

#include "host/checkpoint.h"
#include "host/variables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_valid(const Buf *body)
{
    if (wire_check(buf_head(body), body->size) < 0)
        abort();
}

static void try_variables(const msgpack_object_array *list)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    Writer w;

    if (variables_check(list, LIMIT_NAMESPACE, &problem) < 0)
        return;
    writer_init(&w, &body);
    variables_write(&w, list);
    if (writer_finish(&w) == 0)
        must_be_valid(&body);
}

static void try_checkpoint(const msgpack_object *object)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    Checkpoint checkpoint;
    Writer w;

    if (checkpoint_decode(&checkpoint, object, &problem) < 0)
        return;
    writer_init(&w, &body);
    checkpoint_write(&w, &checkpoint, "session", true);
    if (writer_finish(&w) == 0)
        must_be_valid(&body);
}

static void try_value(const msgpack_object *value)
{
    Problem problem = PROBLEM_NULL;

    try_checkpoint(value);
    if (value->type != MSGPACK_OBJECT_ARRAY)
        return;
    try_variables(&value->via.array);
    checkpoint_ids_check(&value->via.array, &problem);
    for (uint32_t i = 0; i < value->via.array.size; i++)
        try_checkpoint(&value->via.array.ptr[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (message_decode(&message, data, size, &problem) < 0)
        return 0;
    for (uint32_t i = 0; i < message.body.size; i++)
        try_value(&message.body.ptr[i].val);
    return 0;
}
