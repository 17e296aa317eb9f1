#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/fields.h"
#include "tests/support/cmocka.h"

#define SCHEMA_FILE "tests/unit/fields.def"
#include "proto/schema/as_structs.h"
#define SCHEMA_FILE "tests/unit/fields.def"
#include "proto/schema/as_tables.h"

/* The message of the test that is running; what was decoded points into it. */
static struct {
    Buf buf;
    Writer writer;
    Message message;
    Problem problem;
    MsgFields fields;
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
    message_deinit(&t.message);
    t.problem = PROBLEM_NULL;
    assert_int_equal(message_decode(&t.message, buf_head(&t.buf), t.buf.size, &t.problem), 0);
}

static int decode_known(void)
{
    unpack();
    return body_decode_known(&t.fields, MsgFields, &t.message.body, &t.problem);
}

static int decode(void)
{
    unpack();
    return body_decode(&t.fields, MsgFields, &t.message.body, &t.problem);
}

TEST(every_type)
{
    Writer *w = begin(9);

    write_key(w, "list");
    write_array(w, 2);
    write_nil(w);
    write_nil(w);
    write_key(w, "env");
    write_map(w, 1);
    write_key(w, "A");
    write_text(w, "B");
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
    assert_true(text_equal(t.fields.name, "12345678"));
    assert_int_equal(t.fields.data.size, 4);
    assert_memory_equal(t.fields.data.data, "\0\1\2\3", 4);
    assert_false(t.fields.stream);
    assert_int_equal(t.fields.pids, 1000);
    assert_int_equal(t.fields.memory.bytes, 512u << 20);
    assert_true(t.fields.offset == INT64_MIN);
    assert_true(t.fields.timeout == 1.5);
    assert_int_equal(t.fields.env.map->size, 1);
    assert_true(map_find(t.fields.env.map, "A") != NULL);
    assert_int_equal(value_count(&t.fields.list), 2);
}

TEST(absent_and_nil_are_the_same)
{
    Writer *w = begin(3);

    write_key(w, "name");
    write_text(w, "");
    write_key(w, "pids");
    write_nil(w);
    write_key(w, "part");
    write_nil(w);
    assert_int_equal(decode(), 0);
    assert_non_null(t.fields.name.data);
    assert_int_equal(t.fields.name.size, 0);
    assert_true(t.fields.pids == NO_UINT);
    assert_true(t.fields.memory.bytes == NO_UINT);
    assert_true(t.fields.offset == NO_INT);
    assert_true(isnan(t.fields.timeout));
    assert_false(t.fields.stream);
    assert_null(t.fields.data.data);
    assert_null(t.fields.env.map);
    assert_int_equal(value_count(&t.fields.rows), 0);
    assert_false(t.fields.has_part);
}

TEST(integers_are_numbers_too)
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
    assert_true(t.fields.timeout == -3);
    assert_int_equal(t.fields.memory.bytes, 4096);
    assert_true(t.fields.offset == INT64_MAX);
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

TEST(unknown_and_missing)
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

TEST(unknown_ones_of_a_newer_peer)
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
    assert_true(text_equal(t.fields.name, "a"));
    assert_true(t.fields.pids == NO_UINT);
    assert_false(t.fields.stream);

    write_key(w = begin(1), "colour");
    write_nil(w);
    assert_int_equal(decode_known(), -EPROTO);
    assert_string_equal(t.problem.text, "`name` is missing");
}

TEST(wrong_types)
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
        {"dict", "`dict` must be a map"},
        {"notes", "`notes` must be an array"},
        {"rows", "`rows` must be an array"},
        {"part", "`part` must be a map"},
        {"mode", "`mode` must be auto, always or off"},
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

TEST(out_of_range)
{
    write_int(with_name("pids"), -1);
    refused(ERR_BAD_REQUEST, "`pids` is out of range");
    write_uint(with_name("pids"), 1001);
    refused(ERR_BAD_REQUEST, "`pids` is over its limit of 1000");
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

/* With an array of one item, a text. */
static Writer *with_item(const char *key, const char *text)
{
    Writer *w = with_name(key);

    write_array(w, 1);
    write_text(w, text);
    return w;
}

TEST(items)
{
    with_item("notes", "1234");
    assert_int_equal(decode(), 0);
    assert_true(text_equal(value_text(&t.fields.notes, 0), "1234"));
    with_item("notes", "12345");
    refused(ERR_TOO_LARGE, "`notes` is over its limit of 4 bytes");
    assert_int_equal(decode_known(), 0);
    with_item("ids", "a.b");
    assert_int_equal(decode(), 0);
    with_item("ids", ".b");
    refused(ERR_BAD_REQUEST, "`ids` must be an id or a name: 1 to 64 characters of A-Z a-z 0-9 . _ -, the "
                             "first a letter or digit");
    with_item("shape", "1");
    refused(ERR_BAD_REQUEST, "`shape` must be an array of unsigned integers");
    with_item("rows", "1");
    refused(ERR_BAD_REQUEST, "`rows` must be an array of maps");
    Writer *w = with_name("shape");
    write_array(w, 3);
    for (unsigned i = 0; i < 3; i++)
        write_uint(w, i);
    refused(ERR_TOO_LARGE, "`shape` has more than 2 items");
    assert_int_equal(decode_known(), 0);
    assert_int_equal(value_uint(&t.fields.shape, 2), 2);
    w = with_name("dict");
    write_map(w, 1);
    write_bytes(w, "k", 1);
    write_nil(w);
    refused(ERR_BAD_REQUEST, "`dict` must be a map whose keys are text");
}

TEST(words_and_names)
{
    write_text(with_name("mode"), "off");
    assert_int_equal(decode(), 0);
    write_text(with_name("mode"), "of");
    refused(ERR_BAD_REQUEST, "`mode` must be auto, always or off");
    write_text(with_name("mode"), "auto|always");
    refused(ERR_BAD_REQUEST, "`mode` must be auto, always or off");
    assert_int_equal(decode_known(), 0);
    write_text(with_name("mode"), "");
    refused(ERR_BAD_REQUEST, "`mode` must be");
    write_text(with_name("id"), "a-B_9.");
    assert_int_equal(decode(), 0);
    write_text(with_name("id"), "a/b");
    refused(
        ERR_BAD_REQUEST,
        "`id` must be an id or a name: 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit");
    assert_false(name_valid((Text){0}));
    assert_false(name_valid((Text){"a", 0}));
}

static void write_inner(Writer *w, const char *key)
{
    write_map(w, 2);
    write_key(w, "name");
    write_text(w, "inner");
    write_key(w, key);
    write_uint(w, 7);
}

TEST(maps_inside)
{
    MsgInner row;
    Writer *w = with_name("part");

    write_inner(w, "count");
    assert_int_equal(decode(), 0);
    assert_true(t.fields.has_part);
    assert_int_equal(t.fields.part.count, 7);
    w = with_name("rows");
    write_array(w, 1);
    write_inner(w, "count");
    assert_int_equal(decode(), 0);
    value_row(&row, MsgInner, &t.fields.rows, 0);
    assert_true(text_equal(row.name, "inner"));

    w = with_name("rows");
    write_array(w, 1);
    write_inner(w, "colour");
    refused(ERR_BAD_REQUEST, "unknown field `colour`");
    assert_int_equal(decode_known(), 0);
    value_row(&row, MsgInner, &t.fields.rows, 0);
    assert_true(row.count == NO_UINT);
    w = with_name("part");
    write_map(w, 0);
    refused(ERR_BAD_REQUEST, "`name` is missing");
    assert_int_equal(decode_known(), -EPROTO);
}

/* ---- encoding ---- */

/* The body as it comes out of `from`, decoded once more. */
static void encode(const MsgFields *from)
{
    tear_down(NULL);
    assert_int_equal(message_encode(&t.buf, MSG_OPEN, 1, MsgFields, from), 0);
    t.problem = PROBLEM_NULL;
    assert_int_equal(message_decode(&t.message, buf_head(&t.buf), t.buf.size, &t.problem), 0);
    if (body_decode(&t.fields, MsgFields, &t.message.body, &t.problem) < 0)
        fail_msg("%s", t.problem.text);
}

#define NOTHING                                                                                              \
    .name = {"a", 1}, .pids = NO_UINT, .memory = {.bytes = NO_UINT}, .offset = NO_INT, .timeout = NAN

TEST(absent_fields_are_nil_or_left_out)
{
    const msgpack_object *nil;

    encode(&(MsgFields){NOTHING});
    assert_int_equal(t.message.body.size, 17);
    nil = map_find(&t.message.body, "pids");
    assert_true(nil && nil->type == MSGPACK_OBJECT_NIL);
    nil = map_find(&t.message.body, "rows");
    assert_true(nil && nil->type == MSGPACK_OBJECT_NIL);
    assert_null(map_find(&t.message.body, "flag"));
    assert_false(t.fields.has_omitted);
}

static void write_rows(Writer *w, const void *source)
{
    write_array(w, 2);
    body_write(w, MsgInner, (&(MsgInner){.name = {"x", 1}, .count = NO_UINT}));
    body_write(w, MsgInner, (&(MsgInner){.name = {"y", 1}, .count = *(const unsigned *)source}));
}

TEST(given_fields_come_back)
{
    const TextList notes = {(const char *const[]){"n1", "n2"}, 2};
    const MsgFields given = {.name = {"a", 1},
                             .data = {"\0\1", 2},
                             .stream = true,
                             .pids = 9,
                             .memory = {.bytes = 5},
                             .offset = NO_INT,
                             .timeout = 1.5,
                             .mode = {"off", 3},
                             .notes = value_texts(&notes),
                             .rows = {.write = write_rows, .source = &(unsigned){8}},
                             .has_part = true,
                             .part = {.name = {"p", 1}, .count = 0},
                             .left_out = {"in", 2},
                             .flag = true,
                             .has_omitted = true,
                             .omitted = {.name = {"o", 1}, .count = NO_UINT}};
    MsgInner row;

    encode(&given);
    assert_int_equal(t.message.body.size, 20);
    assert_int_equal(t.fields.data.size, 2);
    assert_true(t.fields.stream && t.fields.flag && t.fields.has_omitted && t.fields.has_part);
    assert_true(t.fields.pids == 9 && t.fields.memory.bytes == 5 && t.fields.timeout == 1.5);
    assert_true(text_equal(value_text(&t.fields.notes, 1), "n2"));
    value_row(&row, MsgInner, &t.fields.rows, 0);
    assert_true(row.count == NO_UINT);
    value_row(&row, MsgInner, &t.fields.rows, 1);
    assert_true(text_equal(row.name, "y") && row.count == 8);
    assert_true(t.fields.part.count == 0 && t.fields.omitted.count == NO_UINT);
}

TEST(sizes_may_be_words)
{
    encode(&(MsgFields){.name = {"a", 1},
                        .pids = NO_UINT,
                        .memory = {.text = text_of("2k")},
                        .offset = NO_INT,
                        .timeout = NAN});
    assert_int_equal(map_find(&t.message.body, "memory")->type, MSGPACK_OBJECT_STR);
    assert_int_equal(t.fields.memory.bytes, 2048);
}

TEST(what_is_malformed_is_not_written)
{
    MsgStrict strict = {.text = {"t", 1}, .bytes = {"b", 1}, .uint = UINT64_MAX, .number = 1};
    Buf buf _cleanup_(buf_deinit) = BUF_NULL;

    assert_int_equal(buf_append(&buf, "x", 1), 0);
    assert_int_equal(body_encode(&buf, MsgStrict, &strict), 0);
    strict.text = (Text){0};
    assert_int_equal(body_encode(&buf, MsgStrict, &strict), -EINVAL);
    strict.text = (Text){"t", 1};
    strict.number = NAN;
    assert_int_equal(body_encode(&buf, MsgStrict, &strict), -EINVAL);
    strict.number = 1;
    strict.bytes = (Text){0};
    assert_int_equal(message_encode(&buf, MSG_OPEN, 1, MsgStrict, &strict), -EINVAL);
    strict.bytes = (Text){"b", 1};
    buf.limit = buf.size + 3;
    assert_int_equal(body_encode(&buf, MsgStrict, &strict), -ENOBUFS);
    assert_int_equal(buf_head(&buf)[0], 'x');
    assert_int_equal(buf_head(&buf)[1], 0x86); /* the one that was whole is all there is */
    assert_int_equal(wire_check(buf_head(&buf) + 1, buf.size - 1), 0);
}

TEST(copies_of_text)
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
    return tests_run(NULL, tear_down);
}
