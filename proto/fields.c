#include "proto/fields.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Names of unknown fields are quoted up to this many bytes. */
#define QUOTED_NAME 64
/* Fields of one table. */
#define FIELDS_MAX 64

/* Rules of reading a body: those of schema_decode() or of schema_decode_known(). */
typedef struct Reading {
    bool strict;
    Problem *problem;
} Reading;

static int decode_struct(void *ret, const Schema *schema, const msgpack_object_map *body, Reading reading);

static int wrong_type(const Field *field, const char *wanted, Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST, "`%s` must be %s", field->name, wanted);
}

static int out_of_range(const Field *field, Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST, "`%s` is out of range", field->name);
}

static int too_large(const Field *field, Problem *problem)
{
    return problem_set(problem, ERR_TOO_LARGE, "`%s` is over its limit of %" PRIu64 " bytes", field->name,
                       field->max);
}

static int check_maximum(const Field *field, uint64_t value, Reading reading)
{
    if (reading.strict && field->max && value > field->max)
        return problem_set(reading.problem, ERR_BAD_REQUEST, "`%s` is over its limit of %" PRIu64,
                           field->name, field->max);
    return 0;
}

/* "must be one, two or three" */
static int wrong_word(const Field *field, Problem *problem)
{
    char wanted[160] = "";

    for (const char *word = field->words; *word;
         word += strcspn(word, "|") + (word[strcspn(word, "|")] == '|')) {
        size_t n = strcspn(word, "|"), at = strlen(wanted);
        const char *before = word == field->words ? "" : strchr(word, '|') ? ", " : " or ";

        snprintf(wanted + at, sizeof(wanted) - at, "%s%.*s", before, (int)n, word);
    }
    return wrong_type(field, wanted, problem);
}

static bool is_word(Text text, const char *words)
{
    for (const char *word = words; *word; word += strcspn(word, "|") + (word[strcspn(word, "|")] == '|'))
        if (strcspn(word, "|") == text.size && memcmp(word, text.data, text.size) == 0)
            return true;
    return false;
}

static int check_text(const Field *field, Text text, Reading reading)
{
    if (!reading.strict)
        return 0;
    if (field->max && text.size > field->max)
        return too_large(field, reading.problem);
    if (field->type == FIELD_WORD && !is_word(text, field->words))
        return wrong_word(field, reading.problem);
    if (field->type == FIELD_NAME && !name_valid(text))
        return wrong_type(
            field, "an id or a name: 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit",
            reading.problem);
    return 0;
}

static int decode_text(Text *ret, const Field *field, const msgpack_object *value, Reading reading)
{
    bool bytes = field->type == FIELD_BYTES;
    Text text;

    if (value->type == MSGPACK_OBJECT_STR && !bytes)
        text = (Text){value->via.str.ptr, value->via.str.size};
    else if (value->type == MSGPACK_OBJECT_BIN && bytes)
        text = (Text){value->via.bin.ptr, value->via.bin.size};
    else
        return wrong_type(field, bytes ? "bytes" : "text", reading.problem);
    int r = check_text(field, text, reading);
    if (r == 0)
        *ret = text;
    return r;
}

static int decode_uint(uint64_t *ret, const Field *field, const msgpack_object *value, Reading reading)
{
    if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return out_of_range(field, reading.problem);
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return wrong_type(field, "an integer", reading.problem);
    int r = check_maximum(field, value->via.u64, reading);
    if (r == 0)
        *ret = value->via.u64;
    return r;
}

static int decode_int(int64_t *ret, const Field *field, const msgpack_object *value, Problem *problem)
{
    if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER) {
        if (value->via.u64 > INT64_MAX)
            return out_of_range(field, problem);
        *ret = (int64_t)value->via.u64;
        return 0;
    }
    if (value->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return wrong_type(field, "an integer", problem);
    *ret = value->via.i64;
    return 0;
}

static int decode_double(double *ret, const Field *field, const msgpack_object *value, Problem *problem)
{
    double number;

    switch (value->type) {
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        number = value->via.f64;
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        number = (double)value->via.u64;
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        number = (double)value->via.i64;
        break;
    default:
        return wrong_type(field, "a number", problem);
    }
    if (!isfinite(number))
        return out_of_range(field, problem);
    *ret = number;
    return 0;
}

static int decode_size(uint64_t *ret, const Field *field, const msgpack_object *value, Reading reading)
{
    uint64_t size;

    if (value->type != MSGPACK_OBJECT_STR)
        return decode_uint(ret, field, value, reading);
    if (size_parse(value->via.str.ptr, value->via.str.size, &size) < 0)
        return wrong_type(field, "a size in bytes or text such as 512m", reading.problem);
    int r = check_maximum(field, size, reading);
    if (r == 0)
        *ret = size;
    return r;
}

static int decode_map(const msgpack_object_map **ret, const Field *field, const msgpack_object *value,
                      Problem *problem)
{
    if (value->type != MSGPACK_OBJECT_MAP)
        return wrong_type(field, "a map", problem);
    for (uint32_t i = 0; field->type == FIELD_DICT && i < value->via.map.size; i++)
        if (value->via.map.ptr[i].key.type != MSGPACK_OBJECT_STR)
            return wrong_type(field, "a map whose keys are text", problem);
    *ret = &value->via.map;
    return 0;
}

static int check_item_text(const Field *field, const msgpack_object *item, Reading reading)
{
    const Field as_text = {.name = field->name,
                           .type = field->type == FIELD_NAMES ? FIELD_NAME : FIELD_TEXT,
                           .max = field->type == FIELD_NAMES ? LIMIT_SESSION_NAME : field->max};

    if (item->type != MSGPACK_OBJECT_STR)
        return wrong_type(field, "an array of text", reading.problem);
    return check_text(&as_text, (Text){item->via.str.ptr, item->via.str.size}, reading);
}

static int check_item_row(const Field *field, const msgpack_object *item, Reading reading)
{
    union {
        max_align_t align;
        char bytes[FIELD_ROW_MAX];
    } row;
    const Schema *schema = field->of();

    if (item->type != MSGPACK_OBJECT_MAP)
        return wrong_type(field, "an array of maps", reading.problem);
    if (schema->size > sizeof(row))
        return problem_set(reading.problem, ERR_INTERNAL, "a row of `%s` is too large", field->name);
    return decode_struct(&row, schema, &item->via.map, reading);
}

static int check_item(const Field *field, const msgpack_object *item, Reading reading)
{
    switch (field->type) {
    case FIELD_TEXTS:
    case FIELD_NAMES:
        return check_item_text(field, item, reading);
    case FIELD_UINTS:
        return item->type == MSGPACK_OBJECT_POSITIVE_INTEGER
                   ? 0
                   : wrong_type(field, "an array of unsigned integers", reading.problem);
    case FIELD_ROWS:
        return check_item_row(field, item, reading);
    default:
        return 0;
    }
}

static int decode_array(const msgpack_object_array **ret, const Field *field, const msgpack_object *value,
                        Reading reading)
{
    int r = 0;

    if (value->type != MSGPACK_OBJECT_ARRAY)
        return wrong_type(field, "an array", reading.problem);
    if (reading.strict && field->most && value->via.array.size > field->most)
        return problem_set(reading.problem, ERR_TOO_LARGE, "`%s` has more than %" PRIu64 " items",
                           field->name, field->most);
    for (uint32_t i = 0; r == 0 && i < value->via.array.size; i++)
        r = check_item(field, &value->via.array.ptr[i], reading);
    if (r == 0)
        *ret = &value->via.array;
    return r;
}

static int decode_part(char *ret, const Field *field, const msgpack_object *value, Reading reading)
{
    if (value->type != MSGPACK_OBJECT_MAP)
        return wrong_type(field, "a map", reading.problem);
    *(bool *)(ret + field->given) = true;
    return decode_struct(ret + field->offset, field->of(), &value->via.map, reading);
}

static int decode_value(char *ret, const Field *field, const msgpack_object *value, Reading reading)
{
    void *to = ret + field->offset;

    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_BYTES:
    case FIELD_WORD:
    case FIELD_NAME:
        return decode_text(to, field, value, reading);
    case FIELD_BOOL:
        if (value->type != MSGPACK_OBJECT_BOOLEAN)
            return wrong_type(field, "true or false", reading.problem);
        *(bool *)to = value->via.boolean;
        return 0;
    case FIELD_UINT:
        return decode_uint(to, field, value, reading);
    case FIELD_INT:
        return decode_int(to, field, value, reading.problem);
    case FIELD_DOUBLE:
        return decode_double(to, field, value, reading.problem);
    case FIELD_SIZE:
        return decode_size(to, field, value, reading);
    case FIELD_OBJECT:
        *(const msgpack_object **)to = value;
        return 0;
    case FIELD_MAP:
    case FIELD_DICT:
        return decode_map(to, field, value, reading.problem);
    case FIELD_PART:
        return decode_part(ret, field, value, reading);
    default:
        return decode_array(to, field, value, reading);
    }
}

/* The index of the field that is called so, or n. It is looked for from `first` on: most writers keep to the
 * order of the table, so that each field is the next one. */
static size_t find_field(const Field *fields, size_t n, size_t first, const msgpack_object *key)
{
    if (key->type != MSGPACK_OBJECT_STR)
        return n;
    for (size_t i = 0, at = first < n ? first : 0; i < n; i++, at = at + 1 < n ? at + 1 : 0)
        if (text_equal((Text){key->via.str.ptr, key->via.str.size}, fields[at].name))
            return at;
    return n;
}

static int unknown_field(const msgpack_object *key, Problem *problem)
{
    if (key->type != MSGPACK_OBJECT_STR)
        return problem_set(problem, ERR_BAD_REQUEST, "the name of a field must be text");
    return problem_set(problem, ERR_BAD_REQUEST, "unknown field `%.*s`",
                       (int)MIN(key->via.str.size, (uint32_t)QUOTED_NAME), key->via.str.ptr);
}

static int decode(void *ret, const Field *fields, size_t n, const msgpack_object_map *body, Reading reading)
{
    uint64_t given = 0; /* a bit for each field */
    size_t next = 0;

    if (n > FIELDS_MAX)
        return problem_set(reading.problem, ERR_INTERNAL, "a message cannot have more than %d fields",
                           FIELDS_MAX);
    for (uint32_t i = 0; i < body->size; i++) {
        const msgpack_object_kv *pair = &body->ptr[i];
        size_t at = find_field(fields, n, next, &pair->key);

        if (at == n && reading.strict)
            return unknown_field(&pair->key, reading.problem);
        if (at == n)
            continue;
        next = at + 1;
        if (pair->val.type == MSGPACK_OBJECT_NIL)
            continue;
        given |= UINT64_C(1) << at;
        int r = decode_value(ret, &fields[at], &pair->val, reading);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].need == FIELD_REQUIRED && !(given >> i & 1))
            return problem_set(reading.problem, ERR_BAD_REQUEST, "`%s` is missing", fields[i].name);
    return 0;
}

/* Absent is not zero where zero is a value like others. */
void schema_clear(void *ret, const Schema *schema)
{
    memset(ret, 0, schema->size);
    for (size_t i = 0; i < schema->n; i++) {
        const Field *field = &schema->fields[i];
        void *to = (char *)ret + field->offset;

        if (field->type == FIELD_UINT || field->type == FIELD_SIZE)
            *(uint64_t *)to = NO_UINT;
        else if (field->type == FIELD_INT)
            *(int64_t *)to = NO_INT;
        else if (field->type == FIELD_DOUBLE)
            *(double *)to = NAN;
    }
}

static int decode_struct(void *ret, const Schema *schema, const msgpack_object_map *body, Reading reading)
{
    schema_clear(ret, schema);
    return decode(ret, schema->fields, schema->n, body, reading);
}

int schema_decode(void *ret, const Schema *schema, const msgpack_object_map *body, Problem *problem)
{
    return decode_struct(ret, schema, body, (Reading){true, problem});
}

int schema_decode_known(void *ret, const Schema *schema, const msgpack_object_map *body, Problem *problem)
{
    return decode_struct(ret, schema, body, (Reading){false, problem});
}

void schema_row(void *ret, const Schema *schema, const Value *rows, uint32_t i)
{
    Problem none = PROBLEM_NULL;

    decode_struct(ret, schema, &rows->array->ptr[i].via.map, (Reading){false, &none});
}

Text value_text(const Value *texts, uint32_t i)
{
    const msgpack_object_str *text = &texts->array->ptr[i].via.str;

    return (Text){text->ptr, text->size};
}

uint64_t value_uint(const Value *uints, uint32_t i)
{
    return uints->array->ptr[i].via.u64;
}

static bool value_is_absent(const Value *value)
{
    return !value->object && !value->write;
}

static bool is_absent(const char *from, const Field *field)
{
    const void *at = from + field->offset;

    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_BYTES:
    case FIELD_WORD:
    case FIELD_NAME:
        return !((const Text *)at)->data;
    case FIELD_BOOL:
        return field->need == FIELD_OMIT && !*(const bool *)at;
    case FIELD_UINT:
        return *(const uint64_t *)at == NO_UINT;
    case FIELD_INT:
        return *(const int64_t *)at == NO_INT;
    case FIELD_DOUBLE:
        return isnan(*(const double *)at);
    case FIELD_SIZE:
        return ((const Size *)at)->bytes == NO_UINT && !((const Size *)at)->text.data;
    case FIELD_PART:
        return !*(const bool *)(from + field->given);
    default:
        return value_is_absent(at);
    }
}

static void encode_text(Writer *w, Text text)
{
    if (text.data)
        write_text_n(w, text.data, text.size);
    else
        writer_fail(w, -EINVAL);
}

static void encode_bytes(Writer *w, Text bytes)
{
    if (bytes.data)
        write_bytes(w, bytes.data, bytes.size);
    else
        writer_fail(w, -EINVAL);
}

static void encode_double(Writer *w, double number)
{
    if (isfinite(number))
        write_double(w, number);
    else
        writer_fail(w, -EINVAL);
}

static void encode_size(Writer *w, const Size *size)
{
    if (size->text.data)
        encode_text(w, size->text);
    else
        write_uint(w, size->bytes);
}

/* An item that was received is written anew, in our order and our forms. */
static void encode_item(Writer *w, const Field *field, const msgpack_object *item)
{
    union {
        max_align_t align;
        char bytes[FIELD_ROW_MAX];
    } row;
    const Value rows = {.array = &(const msgpack_object_array){1, (msgpack_object *)item}};

    switch (field->type) {
    case FIELD_TEXTS:
    case FIELD_NAMES:
        write_text_n(w, item->via.str.ptr, item->via.str.size);
        break;
    case FIELD_UINTS:
        write_uint(w, item->via.u64);
        break;
    case FIELD_ROWS:
        schema_row(&row, field->of(), &rows, 0);
        schema_encode(w, field->of(), &row);
        break;
    default:
        write_object(w, item);
    }
}

static void encode_array(Writer *w, const Field *field, const Value *value)
{
    uint32_t n = value_count(value);

    write_array(w, n);
    for (uint32_t i = 0; i < n; i++)
        encode_item(w, field, &value->array->ptr[i]);
}

static void encode_map(Writer *w, const Value *value)
{
    msgpack_object map = {.type = MSGPACK_OBJECT_MAP};

    if (value->map)
        map.via.map = *value->map;
    write_object(w, &map);
}

static void encode_value(Writer *w, const Field *field, const Value *value)
{
    if (value->write)
        value->write(w, value->source);
    else if (field->type == FIELD_OBJECT)
        write_object(w, value->object);
    else if (field->type == FIELD_MAP || field->type == FIELD_DICT)
        encode_map(w, value);
    else
        encode_array(w, field, value);
}

static void encode_field(Writer *w, const Field *field, const void *at)
{
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_WORD:
    case FIELD_NAME:
        encode_text(w, *(const Text *)at);
        break;
    case FIELD_BYTES:
        encode_bytes(w, *(const Text *)at);
        break;
    case FIELD_BOOL:
        write_bool(w, *(const bool *)at);
        break;
    case FIELD_UINT:
        write_uint(w, *(const uint64_t *)at);
        break;
    case FIELD_INT:
        write_int(w, *(const int64_t *)at);
        break;
    case FIELD_DOUBLE:
        encode_double(w, *(const double *)at);
        break;
    case FIELD_SIZE:
        encode_size(w, at);
        break;
    case FIELD_PART:
        schema_encode(w, field->of(), at);
        break;
    default:
        encode_value(w, field, at);
    }
}

void schema_encode(Writer *w, const Schema *schema, const void *from)
{
    size_t left_out = 0;

    for (size_t i = 0; i < schema->n; i++)
        left_out += schema->fields[i].need == FIELD_OMIT && is_absent(from, &schema->fields[i]);
    write_map(w, schema->n - left_out);
    for (size_t i = 0; i < schema->n; i++) {
        const Field *field = &schema->fields[i];
        bool absent = field->need != FIELD_REQUIRED && is_absent(from, field);

        if (absent && field->need == FIELD_OMIT)
            continue;
        write_key(w, field->name);
        if (absent)
            write_nil(w);
        else
            encode_field(w, field, (const char *)from + field->offset);
    }
}

int schema_append(Buf *buf, const Schema *schema, const void *from)
{
    Writer w;

    writer_init(&w, buf);
    schema_encode(&w, schema, from);
    return writer_finish(&w);
}

int message_append(Buf *buf, MessageKind kind, uint64_t id, const Schema *schema, const void *body)
{
    Writer w;

    writer_init(&w, buf);
    write_envelope(&w, kind, id);
    schema_encode(&w, schema, body);
    return writer_finish(&w);
}

static void write_buf(Writer *w, const void *source)
{
    write_encoded(w, source);
}

Value value_encoded(const Buf *encoded)
{
    return (Value){.write = write_buf, .source = encoded};
}

static void write_texts(Writer *w, const void *source)
{
    const TextList *list = source;

    write_array(w, list->n);
    for (size_t i = 0; i < list->n; i++)
        write_text(w, list->texts[i]);
}

Value value_texts(const TextList *list)
{
    return (Value){.write = write_texts, .source = list};
}
