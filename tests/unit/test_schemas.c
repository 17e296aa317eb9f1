/* Every schema: bodies of random values come back from the wire as they were, and all of them fit. */
#include <stdlib.h>
#include <string.h>

#include "proto/schema.h"
#include "tests/support/cmocka.h"

#define ROUNDS 200

static const Schema *(*const schemas[])(void) = {
#define SCHEMA_FILE "proto/schema/all.def"
#include "proto/schema/as_list.h"
};

/* The same numbers in every run. */
static uint64_t random_state;

static uint64_t any(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* Valid text of at most `max` bytes, of characters of one, two, three and four of them. */
static Text any_text(uint64_t max)
{
    static const char characters[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9azc9";
    static const size_t whole[] = {0, 1, 3, 6, 10, 11, 12, 13};
    size_t i = 0;

    for (size_t n = any(ARRAY_SIZE(whole)); i < n && (max == 0 || whole[i + 1] <= max); i++)
        ;
    return (Text){characters, whole[i]};
}

static Text any_word(const char *words)
{
    while (any(2) && strchr(words, '|'))
        words = strchr(words, '|') + 1;
    return (Text){words, strcspn(words, "|")};
}

static void write_field_item(Writer *w, const Field *field);

/* Writes a body of random values, as its schema says. */
static void write_any(Writer *w, const Schema *schema);

static void write_items(Writer *w, const void *source)
{
    const Field *field = source;
    uint64_t n = any(MIN(field->most ? field->most : 3, 3) + 1);

    write_array(w, n);
    for (uint64_t i = 0; i < n; i++)
        write_field_item(w, field);
}

static void write_pairs(Writer *w, const void *source)
{
    write_map(w, 2);
    write_key(w, "a");
    write_int(w, -(int64_t)any(1000));
    write_key(w, "b");
    write_text(w, "c");
}

static void write_field_item(Writer *w, const Field *field)
{
    Text text = field->type == FIELD_NAMES ? (Text){"c12", 1 + any(3)} : any_text(field->max);

    if (field->type == FIELD_ROWS)
        write_any(w, field->of());
    else if (field->type == FIELD_UINTS)
        write_uint(w, any(1u << 20));
    else
        write_text_n(w, text.data, text.size);
}

static void fill(char *body, const Schema *schema);

static void fill_number(void *at, const Field *field)
{
    if (field->type == FIELD_BOOL)
        *(bool *)at = any(2);
    else if (field->type == FIELD_INT)
        *(int64_t *)at = (int64_t)any(100) - 50;
    else if (field->type == FIELD_DOUBLE)
        *(double *)at = (double)any(1000) / 8;
    else
        *(uint64_t *)at = any(field->max ? field->max + 1 : UINT32_MAX);
}

static void fill_field(char *body, const Field *field)
{
    void *at = body + field->offset;

    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_BYTES:
        *(Text *)at = any_text(field->max);
        break;
    case FIELD_WORD:
        *(Text *)at = any_word(field->words);
        break;
    case FIELD_NAME:
        *(Text *)at = (Text){"c12", 1 + any(3)};
        break;
    case FIELD_MAP:
    case FIELD_DICT:
        *(Value *)at = (Value){.write = write_pairs};
        break;
    case FIELD_PART:
        *(bool *)(body + field->given) = true;
        fill(at, field->of());
        break;
    case FIELD_TEXTS:
    case FIELD_NAMES:
    case FIELD_UINTS:
    case FIELD_ROWS:
    case FIELD_ARRAY:
        *(Value *)at = (Value){.write = write_items, .source = field};
        break;
    default:
        fill_number(at, field);
    }
}

/* Absent ones are as decoding leaves them. */
static void fill(char *body, const Schema *schema)
{
    msgpack_object_map empty = {0};
    Problem problem = PROBLEM_NULL;

    schema_decode(body, schema, &empty, &problem);
    for (size_t i = 0; i < schema->n; i++)
        if (schema->fields[i].need == FIELD_REQUIRED || any(2))
            fill_field(body, &schema->fields[i]);
}

static void write_any(Writer *w, const Schema *schema)
{
    char *body _cleanup_(freep) = malloc(schema->size);

    fill(body, schema);
    schema_encode(w, schema, body);
}

static void assert_same_message(const char *name, const Buf *first, const Buf *second)
{
    if (first->size != second->size || memcmp(buf_head(first), buf_head(second), first->size) != 0)
        fail_msg("%s: not the same when it is written again", name);
}

static void there_and_back(const Schema *schema)
{
    Buf first _cleanup_(buf_deinit) = BUF_NULL, second _cleanup_(buf_deinit) = BUF_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    char *body _cleanup_(freep) = malloc(schema->size);
    Problem problem = PROBLEM_NULL;

    fill(body, schema);
    assert_int_equal(message_append(&first, MSG_REPLY, 1, schema, body), 0);
    assert_int_equal(message_decode(&message, buf_head(&first), first.size, &problem), 0);
    if (schema_decode(body, schema, &message.body, &problem) < 0)
        fail_msg("%s: %s", schema->name, problem.text);
    assert_int_equal(message_append(&second, MSG_REPLY, 1, schema, body), 0);
    assert_same_message(schema->name, &first, &second);
}

TEST(random_bodies)
{
    random_state = 1;
    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++)
        for (unsigned round = 0; round < ROUNDS; round++)
            there_and_back(schemas[i]());
}

/* A row is decoded into room of a fixed size, and a table has a bit for each field. */
TEST(everything_fits)
{
    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++) {
        const Schema *schema = schemas[i]();

        assert_true(schema->n <= 64);
        for (size_t k = 0; k < schema->n; k++)
            if (schema->fields[k].type == FIELD_ROWS)
                assert_true(schema->fields[k].of()->size <= FIELD_ROW_MAX);
    }
}
