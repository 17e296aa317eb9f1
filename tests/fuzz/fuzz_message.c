/* An envelope, a table of fields of every type over its body, and text that need not be UTF-8. */
#include <math.h>
#include <stdlib.h>

#include "proto/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Fuzzed {
    Text session, data;
    bool stream;
    uint64_t pids, memory;
    int64_t exit_code;
    double timeout;
    const msgpack_object *result;
    const msgpack_object_map *options;
    const msgpack_object_array *displays;
} Fuzzed;

static const Field fields[] = {
    FIELD(FIELD_TEXT, Fuzzed, session, false, LIMIT_SESSION_NAME),
    FIELD(FIELD_BYTES, Fuzzed, data, false, LIMIT_FILE_CHUNK),
    FIELD(FIELD_BOOL, Fuzzed, stream, false, 0),
    FIELD(FIELD_UINT, Fuzzed, pids, false, 1000),
    FIELD(FIELD_SIZE, Fuzzed, memory, false, 0),
    FIELD(FIELD_INT, Fuzzed, exit_code, false, 0),
    FIELD(FIELD_DOUBLE, Fuzzed, timeout, false, 0),
    FIELD(FIELD_OBJECT, Fuzzed, result, false, 0),
    FIELD(FIELD_MAP, Fuzzed, options, false, 0),
    FIELD(FIELD_ARRAY, Fuzzed, displays, false, 0),
};

static void fuzz_message(const uint8_t *data, size_t size)
{
    Message message;
    Problem problem = PROBLEM_NULL;
    Fuzzed fuzzed = {0};
    int r = message_decode(&message, data, size, &problem);

    if (r == 0)
        r = fields_decode(&fuzzed, fields, ARRAY_SIZE(fields), &message.body, &problem);
    if ((r < 0) != (problem.code != ERR_NONE))
        abort();
    if (r == 0 &&
        (fuzzed.session.size > LIMIT_SESSION_NAME || fuzzed.pids > 1000 || !isfinite(fuzzed.timeout)))
        abort();
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
