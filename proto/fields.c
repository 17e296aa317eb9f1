#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "proto/wire.h"

/* Names of unknown fields are quoted up to this many bytes. */
#define QUOTED_NAME 64
/* Of one table. */
#define FIELDS_MAX 64

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

static int check_maximum(const Field *field, uint64_t value, Problem *problem)
{
    if (field->max && value > field->max)
        return problem_set(problem, ERR_BAD_REQUEST, "`%s` is over its limit of %" PRIu64, field->name,
                           field->max);
    return 0;
}

static int decode_text(Text *ret, const Field *field, const msgpack_object *value, Problem *problem)
{
    Text text;

    if (value->type == MSGPACK_OBJECT_STR && field->type == FIELD_TEXT)
        text = (Text){value->via.str.ptr, value->via.str.size};
    else if (value->type == MSGPACK_OBJECT_BIN && field->type == FIELD_BYTES)
        text = (Text){value->via.bin.ptr, value->via.bin.size};
    else
        return wrong_type(field, field->type == FIELD_TEXT ? "text" : "bytes", problem);
    if (field->max && text.size > field->max)
        return too_large(field, problem);
    *ret = text;
    return 0;
}

static int decode_uint(uint64_t *ret, const Field *field, const msgpack_object *value, Problem *problem)
{
    if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return out_of_range(field, problem);
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return wrong_type(field, "an integer", problem);
    int r = check_maximum(field, value->via.u64, problem);
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

static int decode_size(uint64_t *ret, const Field *field, const msgpack_object *value, Problem *problem)
{
    uint64_t size;

    if (value->type != MSGPACK_OBJECT_STR)
        return decode_uint(ret, field, value, problem);
    if (size_parse(value->via.str.ptr, value->via.str.size, &size) < 0)
        return wrong_type(field, "a size in bytes or text such as 512m", problem);
    int r = check_maximum(field, size, problem);
    if (r == 0)
        *ret = size;
    return r;
}

static int decode_value(void *to, const Field *field, const msgpack_object *value, Problem *problem)
{
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_BYTES:
        return decode_text(to, field, value, problem);
    case FIELD_BOOL:
        if (value->type != MSGPACK_OBJECT_BOOLEAN)
            return wrong_type(field, "true or false", problem);
        *(bool *)to = value->via.boolean;
        return 0;
    case FIELD_UINT:
        return decode_uint(to, field, value, problem);
    case FIELD_INT:
        return decode_int(to, field, value, problem);
    case FIELD_DOUBLE:
        return decode_double(to, field, value, problem);
    case FIELD_SIZE:
        return decode_size(to, field, value, problem);
    case FIELD_OBJECT:
        *(const msgpack_object **)to = value;
        return 0;
    case FIELD_MAP:
        if (value->type != MSGPACK_OBJECT_MAP)
            return wrong_type(field, "a map", problem);
        *(const msgpack_object_map **)to = &value->via.map;
        return 0;
    case FIELD_ARRAY:
        if (value->type != MSGPACK_OBJECT_ARRAY)
            return wrong_type(field, "an array", problem);
        *(const msgpack_object_array **)to = &value->via.array;
        return 0;
    }
    return wrong_type(field, "of a known type", problem);
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

static int decode(void *ret, const Field *fields, size_t n, const msgpack_object_map *body, bool strict,
                  Problem *problem)
{
    uint64_t given = 0; /* a bit for each field */
    size_t next = 0;

    if (n > FIELDS_MAX)
        return problem_set(problem, ERR_INTERNAL, "a message cannot have more than %d fields", FIELDS_MAX);
    for (uint32_t i = 0; i < body->size; i++) {
        const msgpack_object_kv *pair = &body->ptr[i];
        size_t at = find_field(fields, n, next, &pair->key);

        if (at == n && strict)
            return unknown_field(&pair->key, problem);
        if (at == n)
            continue;
        next = at + 1;
        if (pair->val.type == MSGPACK_OBJECT_NIL)
            continue;
        given |= UINT64_C(1) << at;
        int r = decode_value((char *)ret + fields[at].offset, &fields[at], &pair->val, problem);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].required && !(given >> i & 1))
            return problem_set(problem, ERR_BAD_REQUEST, "`%s` is missing", fields[i].name);
    return 0;
}

int fields_decode(void *ret, const Field *fields, size_t n, const msgpack_object_map *body, Problem *problem)
{
    return decode(ret, fields, n, body, true, problem);
}

int fields_decode_known(void *ret, const Field *fields, size_t n, const msgpack_object_map *body,
                        Problem *problem)
{
    return decode(ret, fields, n, body, false, problem);
}

char *text_dup(Text text)
{
    char *copy = text.data ? malloc(text.size + 1) : NULL;

    if (copy) {
        memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
    }
    return copy;
}

bool text_equal(Text text, const char *other)
{
    size_t n = strlen(other);

    return text.data && text.size == n && memcmp(text.data, other, n) == 0;
}
