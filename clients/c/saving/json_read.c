#include "clients/c/saving/json_read.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

struct json_object *json_read(const void *bytes, size_t size)
{
    struct json_tokener *tokener = json_tokener_new();
    struct json_object *value = NULL;

    if (!tokener || size > INT_MAX) {
        json_tokener_free(tokener);
        return NULL;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    value = json_tokener_parse_ex(tokener, bytes, (int)size);
    if (json_tokener_get_error(tokener) != json_tokener_success ||
        json_tokener_get_parse_end(tokener) < size) {
        json_object_put(value);
        value = NULL;
    }
    json_tokener_free(tokener);
    return value;
}

struct json_object *json_member(struct json_object *object, const char *key, enum json_type type)
{
    struct json_object *value = NULL;

    if (!json_object_is_type(object, json_type_object) || !json_object_object_get_ex(object, key, &value) ||
        !json_object_is_type(value, type))
        return NULL;
    return value;
}

bool json_are_texts(struct json_object *array)
{
    for (size_t i = 0; i < json_object_array_length(array); i++)
        if (!json_object_is_type(json_object_array_get_idx(array, i), json_type_string))
            return false;
    return true;
}

static void pack_integer(Writer *w, struct json_object *value)
{
    int64_t number = json_object_get_int64(value);

    if (number < 0)
        write_int(w, number);
    else
        write_uint(w, json_object_get_uint64(value));
}

static void pack_array(Writer *w, struct json_object *array)
{
    size_t n = json_object_array_length(array);

    write_array(w, n);
    for (size_t i = 0; i < n; i++)
        json_pack(w, json_object_array_get_idx(array, i));
}

static void pack_object(Writer *w, struct json_object *object)
{
    write_map(w, (size_t)json_object_object_length(object));
    json_object_object_foreach(object, key, value)
    {
        write_text(w, key);
        json_pack(w, value);
    }
}

void json_pack(Writer *w, struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_boolean:
        write_bool(w, json_object_get_boolean(value));
        return;
    case json_type_int:
        pack_integer(w, value);
        return;
    case json_type_double:
        write_double(w, json_object_get_double(value));
        return;
    case json_type_string:
        write_text_n(w, json_object_get_string(value), (size_t)json_object_get_string_len(value));
        return;
    case json_type_array:
        pack_array(w, value);
        return;
    case json_type_object:
        pack_object(w, value);
        return;
    default:
        write_nil(w);
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void json_pack_sorted(Writer *w, struct json_object *object)
{
    size_t n = (size_t)json_object_object_length(object), i = 0;
    _cleanup_(freep) const char **keys = calloc(MAX(n, (size_t)1), sizeof(*keys));

    if (!keys) {
        writer_fail(w, -ENOMEM);
        return;
    }
    json_object_object_foreach(object, key, value)
    {
        (void)value;
        keys[i++] = key;
    }
    qsort(keys, n, sizeof(*keys), compare);
    write_map(w, n);
    for (i = 0; i < n; i++) {
        write_text(w, keys[i]);
        json_pack(w, json_object_object_get(object, keys[i]));
    }
}
