/* An envelope; every schema over its body, from which what was accepted comes back the same; and text that
 * need not be UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "proto/schema.h"

#define SCHEMA_FILE "tests/unit/fields.def"
#include "proto/schema/as_structs.h"
#define SCHEMA_FILE "tests/unit/fields.def"
#include "proto/schema/as_tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const Schema *(*const schemas[])(void) = {
#define SCHEMA_FILE "proto/schema/all.def"
#include "proto/schema/as_list.h"
#define SCHEMA_FILE "tests/unit/fields.def"
#include "proto/schema/as_list.h"
};

/* Writes what was accepted, and reads it again by the same rules; written once more it is the same. */
static void there_and_back(const Schema *schema, const void *body)
{
    Buf first _cleanup_(buf_deinit) = BUF_NULL, second _cleanup_(buf_deinit) = BUF_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    void *again _cleanup_(freep) = malloc(schema->size);
    Problem problem = PROBLEM_NULL;

    if (message_append(&first, MSG_REPLY, 1, schema, body) < 0 ||
        message_decode(&message, buf_head(&first), first.size, &problem) < 0 ||
        schema_decode(again, schema, &message.body, &problem) < 0 ||
        message_append(&second, MSG_REPLY, 1, schema, again) < 0 || second.size != first.size ||
        memcmp(buf_head(&first), buf_head(&second), first.size) != 0)
        abort();
}

static void fuzz_schema(const Schema *schema, const msgpack_object_map *map)
{
    void *body _cleanup_(freep) = malloc(schema->size);
    Problem problem = PROBLEM_NULL;
    int r = schema_decode(body, schema, map, &problem);

    if ((r < 0) != (problem.code != ERR_NONE))
        abort();
    if (r == 0)
        there_and_back(schema, body);
    problem = PROBLEM_NULL;
    if (r == 0 && schema_decode_known(body, schema, map, &problem) < 0)
        abort();
}

static void fuzz_message(const uint8_t *data, size_t size)
{
    Message message;
    Problem problem = PROBLEM_NULL;

    if (message_decode(&message, data, size, &problem) < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++)
        fuzz_schema(schemas[i](), &message.body);
    message_deinit(&message);
}

static void fuzz_text(const uint8_t *data, size_t size)
{
    Buf replaced = BUF_NULL;
    uint64_t parsed;

    if (utf8_append_replaced(&replaced, data, size) < 0 || !utf8_valid(buf_head(&replaced), replaced.size))
        abort();
    if (utf8_valid(data, size) && replaced.size != size)
        abort();
    buf_deinit(&replaced);
    size_parse((const char *)data, size, &parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_message(data, size);
    fuzz_text(data, size);
    return 0;
}
