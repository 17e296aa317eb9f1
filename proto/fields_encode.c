#include <errno.h>
#include <math.h>

#include "proto/fields.h"

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
