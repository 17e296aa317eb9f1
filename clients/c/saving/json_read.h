/* JSON that somebody else has written, by json-c: unlike other libraries it takes the lone surrogates that
 * Python writes for the bytes of file names. */
#pragma once

#include <json-c/json.h>

#include "proto/wire.h"

static inline void json_releasep(struct json_object **object)
{
    json_object_put(*object);
}

/* Exactly one value; NULL where it is none, or nested too deep. It is released with json_object_put(). */
struct json_object *json_read(const void *bytes, size_t size);

/* The member of an object, where it is of that type; otherwise NULL. */
struct json_object *json_member(struct json_object *object, const char *key, enum json_type type);

static inline Text json_text(struct json_object *string)
{
    return (Text){json_object_get_string(string), (size_t)json_object_get_string_len(string)};
}

/* Returns whether each element of an array is a string. */
bool json_are_texts(struct json_object *array);

/* The same as msgpack; and an object with its members by name. */
void json_pack(Writer *w, struct json_object *value);
void json_pack_sorted(Writer *w, struct json_object *object);
