/* The golden vectors of proto/vectors: our encoder makes exactly those bytes and our decoder accepts them and
 * loses nothing. */
#include <glob.h>
#include <jansson.h>
#include <string.h>

#include "proto/schema.h"
#include "tests/support/cmocka.h"

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

/* ---- schemas ---- */

static const Schema *(*const schemas[])(void) = {
#define SCHEMA_FILE "proto/schema/all.def"
#include "proto/schema/as_list.h"
};

/* Vectors that are not called as their schema, with or without something behind that. */
static const struct {
    const char *vector, *schema;
} others[] = {
    {"branch-reply", "open-reply"},
    {"checkpoints", "target"},
    {"checkpoints-guest", "nothing"},
    {"close", "target"},
    {"close-guest", "namespace-guest"},
    {"close-reply", "nothing"},
    {"drop", "rollback"},
    {"drop-reply", "nothing"},
    {"exec-reply", "record"},
    {"frozen", "nothing"},
    {"interrupt-guest", "nothing"},
    {"namespace", "target"},
    {"namespace-interpreter", "nothing"},
    {"namespace-interpreter-names", "namespace-reply"},
    {"processes", "target"},
    {"reset", "target"},
    {"sleep", "target"},
    {"run-reply", "record"},
    {"run-reply-between", "record"},
    {"run-reply-full", "record"},
    {"run-reply-lost", "record"},
    {"run-reply-rolled-back", "record"},
    {"sessions", "nothing"},
    {"set_network-guest", "nothing"},
    {"settled", "nothing"},
    {"stop", "nothing"},
    {"templates", "nothing"},
};

static bool begins_with(const char *vector, const char *schema)
{
    size_t n = strlen(schema);

    return strncmp(vector, schema, n) == 0 && (vector[n] == '\0' || vector[n] == '-');
}

/* The longest of its names. */
static const Schema *schema_of_vector(const char *vector)
{
    const Schema *found = NULL;
    const char *wanted = vector;

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (strcmp(others[i].vector, vector) == 0)
            wanted = others[i].schema;
    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++) {
        const Schema *schema = schemas[i]();

        if (begins_with(wanted, schema->name) && (!found || strlen(schema->name) > strlen(found->name)))
            found = schema;
    }
    if (!found)
        fail_msg("%s: no schema is called so", vector);
    return found;
}

static bool is_none(const msgpack_object *object)
{
    return object->type == MSGPACK_OBJECT_NIL ||
           (object->type == MSGPACK_OBJECT_BOOLEAN && !object->via.boolean);
}

/* 10 and 10.0 are the same number, and a size may be text. */
static bool same_number(const msgpack_object *a, const msgpack_object *b)
{
    uint64_t size;

    if (a->type == MSGPACK_OBJECT_STR && b->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        return size_parse(a->via.str.ptr, a->via.str.size, &size) == 0 && size == b->via.u64;
    return a->type == MSGPACK_OBJECT_POSITIVE_INTEGER && b->type == MSGPACK_OBJECT_FLOAT64 &&
           (double)a->via.u64 == b->via.f64;
}

static bool holds(const msgpack_object *ours, const msgpack_object *vector);

/* All of the vector's fields in their order, and between them nothing but what says nothing. */
static bool map_holds(const msgpack_object_map *ours, const msgpack_object_map *vector)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < ours->size; i++) {
        if (next < vector->size && msgpack_object_equal(ours->ptr[i].key, vector->ptr[next].key)) {
            if (!holds(&ours->ptr[i].val, &vector->ptr[next].val))
                return false;
            next++;
        } else if (!is_none(&ours->ptr[i].val)) {
            return false;
        }
    }
    /* Values with which a vector says nothing may be left out. */
    while (next < vector->size && is_none(&vector->ptr[next].val))
        next++;
    return next == vector->size;
}

static bool holds(const msgpack_object *ours, const msgpack_object *vector)
{
    if (ours->type == MSGPACK_OBJECT_MAP && vector->type == MSGPACK_OBJECT_MAP)
        return map_holds(&ours->via.map, &vector->via.map);
    if (ours->type != MSGPACK_OBJECT_ARRAY || vector->type != MSGPACK_OBJECT_ARRAY)
        return msgpack_object_equal(*ours, *vector) || same_number(vector, ours);
    if (ours->via.array.size != vector->via.array.size)
        return false;
    for (uint32_t i = 0; i < ours->via.array.size; i++)
        if (!holds(&ours->via.array.ptr[i], &vector->via.array.ptr[i]))
            return false;
    return true;
}

/* The body of the vector fits its schema, and is what our encoder makes of it. */
static void check_schema(const char *name, const Buf *expected)
{
    const Schema *schema = schema_of_vector(name);
    Message message _cleanup_(message_deinit) = MESSAGE_NULL, again _cleanup_(message_deinit) = MESSAGE_NULL;
    Buf buf _cleanup_(buf_deinit) = BUF_NULL;
    char *body _cleanup_(freep) = malloc(schema->size);
    Problem problem = PROBLEM_NULL;

    assert_int_equal(message_decode(&message, buf_head(expected), expected->size, &problem), 0);
    if (schema_decode(body, schema, &message.body, &problem) < 0)
        fail_msg("%s is no %s: %s", name, schema->name, problem.text);
    assert_int_equal(message_append(&buf, message.kind, message.id, schema, body), 0);
    assert_int_equal(message_decode(&again, buf_head(&buf), buf.size, &problem), 0);
    if (!map_holds(&again.body, &message.body))
        fail_msg("%s: the schema %s writes it otherwise", name, schema->name);
}

static void check_vector(json_t *vector, bool *ret_seen)
{
    const char *name = json_string_value(json_object_get(vector, "name"));
    Buf expected _cleanup_(buf_deinit) = BUF_NULL;

    append_hex(&expected, json_string_value(json_object_get(vector, "hex")));
    check_encoder(name, vector, &expected);
    check_decoder(name, vector, &expected);
    check_schema(name, &expected);
    ret_seen[json_integer_value(json_object_get(vector, "kind"))] = true;
}

static void check_file(const char *path, bool *ret_seen)
{
    json_error_t error;
    json_t *vectors = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error), *vector;
    size_t i;

    if (!vectors)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    json_array_foreach(vectors, i, vector) check_vector(vector, ret_seen);
    json_decref(vectors);
}

TEST(every_vector)
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
        check_file(paths.gl_pathv[i], seen);
    globfree(&paths);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (!seen[kinds[i]])
            fail_msg("no vector for %s", message_name(kinds[i]));
}
