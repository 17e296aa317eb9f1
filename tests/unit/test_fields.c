#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/wire.h"

typedef struct Options {
    Text name, data;
    bool stream;
    uint64_t pids, memory;
    int64_t offset;
    double timeout;
    const msgpack_object *any;
    const msgpack_object_map *env;
    const msgpack_object_array *list;
} Options;

static const Field fields[] = {
    FIELD(FIELD_TEXT, Options, name, true, 8),
    FIELD(FIELD_BYTES, Options, data, false, 4),
    FIELD(FIELD_BOOL, Options, stream, false, 0),
    FIELD(FIELD_UINT, Options, pids, false, 1000),
    FIELD(FIELD_SIZE, Options, memory, false, 1u << 30),
    FIELD(FIELD_INT, Options, offset, false, 0),
    FIELD(FIELD_DOUBLE, Options, timeout, false, 0),
    FIELD(FIELD_OBJECT, Options, any, false, 0),
    FIELD(FIELD_MAP, Options, env, false, 0),
    FIELD(FIELD_ARRAY, Options, list, false, 0),
};

/* The message of the test that is running; what was decoded points into it. */
static struct {
    Buf buf;
    Writer writer;
    Message message;
    Problem problem;
    Options options;
} t;

static int tear_down(void **state)
{
    message_deinit(&t.message);
    buf_deinit(&t.buf);
    return 0;
}

static Writer *begin(size_t pairs)
{
    tear_down(NULL);
    writer_message(&t.writer, &t.buf, MSG_OPEN, 1, pairs);
    return &t.writer;
}

static void unpack(void)
{
    assert_int_equal(writer_finish(&t.writer), 0);
    t.problem = PROBLEM_NULL;
    assert_int_equal(message_decode(&t.message, buf_head(&t.buf), t.buf.size, &t.problem), 0);
    t.options = (Options){.pids = 128, .timeout = 30, .stream = true};
}

static int decode_known(void)
{
    unpack();
    return fields_decode_known(&t.options, fields, ARRAY_SIZE(fields), &t.message.body, &t.problem);
}

static int decode(void)
{
    unpack();
    return fields_decode(&t.options, fields, ARRAY_SIZE(fields), &t.message.body, &t.problem);
}

static void every_type(void **state)
{
    Writer *w = begin(10);

    write_key(w, "list");
    write_array(w, 2);
    write_nil(w);
    write_nil(w);
    write_key(w, "env");
    write_map(w, 1);
    write_key(w, "A");
    write_text(w, "B");
    write_key(w, "any");
    write_uint(w, 42);
    write_key(w, "timeout");
    write_double(w, 1.5);
    write_key(w, "offset");
    write_int(w, INT64_MIN);
    write_key(w, "memory");
    write_text(w, "512m");
    write_key(w, "pids");
    write_uint(w, 1000);
    write_key(w, "stream");
    write_bool(w, false);
    write_key(w, "data");
    write_bytes(w, "\0\1\2\3", 4);
    write_key(w, "name");
    write_text(w, "12345678");
    assert_int_equal(decode(), 0);
    assert_true(text_equal(t.options.name, "12345678"));
    assert_int_equal(t.options.data.size, 4);
    assert_memory_equal(t.options.data.data, "\0\1\2\3", 4);
    assert_false(t.options.stream);
    assert_int_equal(t.options.pids, 1000);
    assert_int_equal(t.options.memory, 512u << 20);
    assert_true(t.options.offset == INT64_MIN);
    assert_true(t.options.timeout == 1.5);
    assert_int_equal(t.options.any->via.u64, 42);
    assert_int_equal(t.options.env->size, 1);
    assert_true(map_find(t.options.env, "A") != NULL);
    assert_int_equal(t.options.list->size, 2);
}

static void absent_and_nil_are_the_same(void **state)
{
    Writer *w = begin(3);

    write_key(w, "name");
    write_text(w, "");
    write_key(w, "pids");
    write_nil(w);
    write_key(w, "any");
    write_nil(w);
    assert_int_equal(decode(), 0);
    assert_non_null(t.options.name.data);
    assert_int_equal(t.options.name.size, 0);
    assert_int_equal(t.options.pids, 128);
    assert_true(t.options.timeout == 30);
    assert_true(t.options.stream);
    assert_null(t.options.data.data);
    assert_null(t.options.any);
}

static void integers_are_numbers_too(void **state)
{
    Writer *w = begin(4);

    write_key(w, "name");
    write_text(w, "a");
    write_key(w, "timeout");
    write_int(w, -3);
    write_key(w, "memory");
    write_uint(w, 4096);
    write_key(w, "offset");
    write_uint(w, INT64_MAX);
    assert_int_equal(decode(), 0);
    assert_true(t.options.timeout == -3);
    assert_int_equal(t.options.memory, 4096);
    assert_true(t.options.offset == INT64_MAX);
}

static void refused(ErrorCode code, const char *words)
{
    assert_int_equal(decode(), -EPROTO);
    assert_int_equal(t.problem.code, code);
    if (!strstr(t.problem.text, words))
        fail_msg("'%s' does not say '%s'", t.problem.text, words);
}

static Writer *with_name(const char *key)
{
    Writer *w = begin(2);

    write_key(w, "name");
    write_text(w, "a");
    write_key(w, key);
    return w;
}

static void unknown_and_missing(void **state)
{
    write_nil(with_name("colour"));
    refused(ERR_BAD_REQUEST, "unknown field `colour`");
    write_nil(with_name("nam"));
    refused(ERR_BAD_REQUEST, "unknown field `nam`");
    Writer *w = begin(1);
    write_bytes(w, "name", 4);
    write_text(w, "a");
    refused(ERR_BAD_REQUEST, "must be text");
    begin(0);
    refused(ERR_BAD_REQUEST, "`name` is missing");
    w = begin(1);
    write_key(w, "name");
    write_nil(w);
    refused(ERR_BAD_REQUEST, "`name` is missing");
}

static void unknown_ones_of_a_newer_peer(void **state)
{
    Writer *w = begin(4);

    write_key(w, "colour");
    write_map(w, 0);
    write_key(w, "name");
    write_text(w, "a");
    write_bytes(w, "pids", 4);
    write_uint(w, 9);
    write_key(w, "stream");
    write_bool(w, false);
    assert_int_equal(decode_known(), 0);
    assert_true(text_equal(t.options.name, "a"));
    assert_int_equal(t.options.pids, 128);
    assert_false(t.options.stream);

    write_key(w = begin(1), "colour");
    write_nil(w);
    assert_int_equal(decode_known(), -EPROTO);
    assert_string_equal(t.problem.text, "`name` is missing");
}

static void wrong_types(void **state)
{
    static const struct {
        const char *key, *words;
    } cases[] = {
        {"data", "`data` must be bytes"},
        {"stream", "`stream` must be true or false"},
        {"pids", "`pids` must be an integer"},
        {"memory", "`memory` must be a size"},
        {"offset", "`offset` must be an integer"},
        {"timeout", "`timeout` must be a number"},
        {"env", "`env` must be a map"},
        {"list", "`list` must be an array"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        write_text(with_name(cases[i].key), "text");
        refused(ERR_BAD_REQUEST, cases[i].words);
    }
    Writer *w = begin(1);
    write_key(w, "name");
    write_bytes(w, "a", 1);
    refused(ERR_BAD_REQUEST, "`name` must be text");
}

static void out_of_range(void **state)
{
    write_int(with_name("pids"), -1);
    refused(ERR_BAD_REQUEST, "`pids` is out of range");
    write_uint(with_name("pids"), 1001);
    refused(ERR_BAD_REQUEST, "`pids` is over its limit of 1000");
    write_uint(with_name("memory"), (1u << 30) + 1);
    refused(ERR_BAD_REQUEST, "`memory` is over its limit");
    write_text(with_name("memory"), "2g");
    refused(ERR_BAD_REQUEST, "`memory` is over its limit");
    write_int(with_name("memory"), -5);
    refused(ERR_BAD_REQUEST, "`memory` is out of range");
    write_uint(with_name("offset"), (uint64_t)INT64_MAX + 1);
    refused(ERR_BAD_REQUEST, "`offset` is out of range");
    write_double(with_name("timeout"), NAN);
    refused(ERR_BAD_REQUEST, "`timeout` is out of range");
    write_double(with_name("timeout"), -INFINITY);
    refused(ERR_BAD_REQUEST, "`timeout` is out of range");
    write_bytes(with_name("data"), "12345", 5);
    refused(ERR_TOO_LARGE, "`data` is over its limit of 4 bytes");
    Writer *w = begin(1);
    write_key(w, "name");
    write_text(w, "123456789");
    refused(ERR_TOO_LARGE, "`name` is over its limit of 8 bytes");
}

static void copies_of_text(void **state)
{
    char *copy = text_dup((Text){"abcdef", 3});

    assert_string_equal(copy, "abc");
    free(copy);
    assert_null(text_dup((Text){0}));
    assert_false(text_equal((Text){0}, ""));
    assert_true(text_equal((Text){"x", 0}, ""));
    assert_false(text_equal((Text){"abc", 3}, "ab"));
    assert_false(text_equal((Text){"abc", 3}, "abd"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),
        cmocka_unit_test(absent_and_nil_are_the_same),
        cmocka_unit_test(integers_are_numbers_too),
        cmocka_unit_test(unknown_and_missing),
        cmocka_unit_test(unknown_ones_of_a_newer_peer),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(out_of_range),
        cmocka_unit_test(copies_of_text),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
