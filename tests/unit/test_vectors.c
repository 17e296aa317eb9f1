/* The golden vectors of proto/vectors: our encoder makes exactly those bytes and our decoder accepts them and
 * loses nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <jansson.h>
#include <string.h>

#include "proto/wire.h"

#define KINDS 128

static void append_hex(Buf *buf, const char *hex)
{
    unsigned byte;

    for (; *hex; hex += 2) {
        assert_int_equal(sscanf(hex, "%2x", &byte), 1);
        assert_int_equal(buf_append(buf, &(uint8_t){(uint8_t)byte}, 1), 0);
    }
}

static void write_hex(Writer *w, const char *hex)
{
    Buf bytes = BUF_NULL;

    append_hex(&bytes, hex);
    write_bytes(w, buf_head(&bytes), bytes.size);
    buf_deinit(&bytes);
}

static void write_json(Writer *w, json_t *value);

static void write_json_object(Writer *w, json_t *value)
{
    const char *bin = json_string_value(json_object_get(value, "$bin")), *key;
    json_t *item;

    if (bin) {
        write_hex(w, bin);
        return;
    }
    write_map(w, json_object_size(value));
    json_object_foreach(value, key, item)
    {
        if (strncmp(key, "$bin:", 5) == 0)
            write_hex(w, key + 5);
        else
            write_key(w, key);
        write_json(w, item);
    }
}

static void write_json_array(Writer *w, json_t *value)
{
    size_t i;
    json_t *item;

    write_array(w, json_array_size(value));
    json_array_foreach(value, i, item) write_json(w, item);
}

static void write_json(Writer *w, json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_json_object(w, value);
        break;
    case JSON_ARRAY:
        write_json_array(w, value);
        break;
    case JSON_STRING:
        write_text_n(w, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        write_int(w, json_integer_value(value));
        break;
    case JSON_REAL:
        write_double(w, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        write_bool(w, json_is_true(value));
        break;
    case JSON_NULL:
        write_nil(w);
        break;
    }
}

static void assert_same(const char *name, const Buf *buf, const Buf *expected)
{
    if (buf->size != expected->size || memcmp(buf_head(buf), buf_head(expected), buf->size) != 0)
        fail_msg("%s: other bytes than in the vector", name);
}

static void check_encoder(const char *name, json_t *vector, const Buf *expected)
{
    json_t *body = json_object_get(vector, "body"), *item;
    Buf buf = BUF_NULL;
    const char *key;
    Writer w;

    writer_message(&w, &buf, (MessageKind)json_integer_value(json_object_get(vector, "kind")),
                   (uint64_t)json_integer_value(json_object_get(vector, "id")), json_object_size(body));
    json_object_foreach(body, key, item)
    {
        write_key(&w, key);
        write_json(&w, item);
    }
    assert_int_equal(writer_finish(&w), 0);
    assert_same(name, &buf, expected);
    buf_deinit(&buf);
}

static void check_decoder(const char *name, json_t *vector, const Buf *expected)
{
    Buf buf = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    Message message;
    Writer w;

    if (message_decode(&message, buf_head(expected), expected->size, &problem) < 0)
        fail_msg("%s: %s", name, problem.text);
    assert_int_equal(message.kind, json_integer_value(json_object_get(vector, "kind")));
    assert_int_equal(message.id, json_integer_value(json_object_get(vector, "id")));
    assert_string_not_equal(message_name(message.kind), "unknown");
    writer_message(&w, &buf, message.kind, message.id, message.body.size);
    for (uint32_t i = 0; i < message.body.size; i++) {
        write_object(&w, &message.body.ptr[i].key);
        write_object(&w, &message.body.ptr[i].val);
    }
    assert_int_equal(writer_finish(&w), 0);
    assert_same(name, &buf, expected);
    message_deinit(&message);
    buf_deinit(&buf);
}

static void check_vector(const char *path, bool *ret_seen)
{
    json_error_t error;
    json_t *vector = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    Buf expected = BUF_NULL;

    if (!vector)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    append_hex(&expected, json_string_value(json_object_get(vector, "hex")));
    check_encoder(path, vector, &expected);
    check_decoder(path, vector, &expected);
    ret_seen[json_integer_value(json_object_get(vector, "kind"))] = true;
    buf_deinit(&expected);
    json_decref(vector);
}

static void every_vector(void **state)
{
    static const unsigned kinds[] = {
#define MESSAGE(number, name, text, direction) number,
#include "proto/messages.def"
#undef MESSAGE
    };
    bool seen[KINDS] = {false};
    glob_t paths;

    assert_int_equal(glob(SOURCE_DIR "/proto/vectors/*.json", 0, NULL, &paths), 0);
    for (size_t i = 0; i < paths.gl_pathc; i++)
        check_vector(paths.gl_pathv[i], seen);
    globfree(&paths);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (!seen[kinds[i]])
            fail_msg("no vector for %s", message_name(kinds[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
