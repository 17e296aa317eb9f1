/* Fields: the body of a message as a C struct, moved in and out of msgpack by the table of its schema. The
 * schemas themselves are in proto/schema/, one line for each field; proto/schema.h makes their structs.
 *
 * What a struct holds of a field that is absent, or nil, which is the same:
 *
 *   Text             data is NULL
 *   bool             false
 *   uint64_t         NO_UINT    (a required one has no such value: it may be any number)
 *   int64_t          NO_INT
 *   double           NAN
 *   Size             bytes is NO_UINT
 *   Value            nothing received, nothing to write
 *   another struct   has_NAME is false */
#pragma once

#include "proto/wire.h"

#define NO_UINT UINT64_MAX
#define NO_INT  INT64_MIN

/* Bytes, on the wire also as text such as "512m". */
typedef struct Size {
    uint64_t bytes;
    Text text; /* written in place of `bytes` where it is there; never set by decoding */
} Size;

/* A value with more inside: received, and then in the message, or to be written by a function. */
typedef struct Value {
    union {
        const msgpack_object *object; /* ANY */
        const msgpack_object_map *map;
        const msgpack_object_array *array;
    };
    void (*write)(Writer *w, const void *source); /* writes one value of the field's type */
    const void *source;
} Value;

/* Bytes of the struct of a row, at most. */
#define FIELD_ROW_MAX 1024

typedef enum FieldType {
    FIELD_TEXT,   /* Text */
    FIELD_BYTES,  /* Text */
    FIELD_WORD,   /* Text, one of `words` */
    FIELD_NAME,   /* Text, as name_valid() */
    FIELD_BOOL,   /* bool */
    FIELD_UINT,   /* uint64_t */
    FIELD_INT,    /* int64_t */
    FIELD_DOUBLE, /* double; an integer is taken too; never NaN or infinite */
    FIELD_SIZE,   /* Size: an integer, or text as "512m", "1.5g" */
    FIELD_OBJECT, /* Value: anything */
    FIELD_MAP,    /* Value: a map */
    FIELD_DICT,   /* Value: a map whose keys are text */
    FIELD_ARRAY,  /* Value: an array of anything */
    FIELD_TEXTS,  /* Value: an array of at most `most` texts of at most `max` bytes */
    FIELD_NAMES,  /* Value: an array of at most `most` texts as name_valid() */
    FIELD_UINTS,  /* Value: an array of at most `most` unsigned integers */
    FIELD_ROWS,   /* Value: an array of at most `most` maps, each as `of` says */
    FIELD_PART,   /* a struct and `bool has_NAME`: a map as `of` says */
} FieldType;

/* Need of a field: may it be absent, and how is it written then. */
typedef enum FieldNeed {
    FIELD_NIL,      /* it may; written as nil */
    FIELD_REQUIRED, /* it may not */
    FIELD_OMIT,     /* it may; left out */
} FieldNeed;

typedef struct Schema Schema;

typedef struct Field {
    const char *name;
    FieldType type;
    FieldNeed need;
    size_t offset;
    size_t given;      /* offset of has_NAME */
    uint64_t max;      /* bytes of text and bytes, value of unsigned numbers; 0: no limit of its own */
    uint64_t most;     /* items; 0: no limit of its own */
    const char *words; /* "one|two" */
    const Schema *(*of)(void);
} Field;

struct Schema {
    const char *name;
    const Field *fields;
    size_t n;
    size_t size; /* of the struct */
};

/* The schema of the struct `type`. */
#define SCHEMA(type) schema_of_##type()

/* Sets *ret, a `type`, from a map. Text and values point into the message. Refuses unknown keys, missing
 * required ones, wrong types and what is over a limit, with a BAD_REQUEST (or TOO_LARGE) that names the
 * field; *ret is of no use then. */
#define body_decode(ret, type, map, problem) schema_decode((type *){ret}, SCHEMA(type), map, problem)
int schema_decode(void *ret, const Schema *schema, const msgpack_object_map *body, Problem *problem);

/* The same for what may come from a newer peer that is trusted: unknown keys are passed over, at every depth,
 * and limits and words are not looked at. */
#define body_decode_known(ret, type, map, problem)                                                           \
    schema_decode_known((type *){ret}, SCHEMA(type), map, problem)
int schema_decode_known(void *ret, const Schema *schema, const msgpack_object_map *body, Problem *problem);

/* Sets *ret, a `type`, to what decoding an empty map would. */
#define body_clear(ret, type) schema_clear((type *){ret}, SCHEMA(type))
void schema_clear(void *ret, const Schema *schema);

/* A number that may be absent, and what stands for it then. */
static inline uint64_t uint_or(uint64_t value, uint64_t absent)
{
    return value == NO_UINT ? absent : value;
}

/* Returns the number of items of an array that was received; 0 when it is absent. */
static inline uint32_t value_count(const Value *value)
{
    return value->array ? value->array->size : 0;
}

/* Items of what was decoded as NAMES or TEXTS, UINTS, ROWS; they have been checked. */
Text value_text(const Value *texts, uint32_t i);
uint64_t value_uint(const Value *uints, uint32_t i);
#define value_row(ret, type, rows, i) schema_row((type *){ret}, SCHEMA(type), rows, i)
void schema_row(void *ret, const Schema *schema, const Value *rows, uint32_t i);

/* Writes a `type` as a map, its fields in the order of the schema. A required field that is absent, or a
 * number that is not finite, is a fault of ours: writer_finish() then says -EINVAL. Only lists and maps are
 * written empty instead. Limits are for the receiver to look at. */
#define body_write(w, type, from) schema_encode(w, SCHEMA(type), (const type *){from})
void schema_encode(Writer *w, const Schema *schema, const void *from);

/* Appends the map alone, or a whole message. 0, or -ENOBUFS, -ENOMEM or -EINVAL with nothing appended. */
#define body_encode(buf, type, from) schema_append(buf, SCHEMA(type), (const type *){from})
int schema_append(Buf *buf, const Schema *schema, const void *from);
#define message_encode(buf, kind, id, type, from)                                                            \
    message_append(buf, kind, id, SCHEMA(type), (const type *){from})
int message_append(Buf *buf, MessageKind kind, uint64_t id, const Schema *schema, const void *body);

/* Values to be written. What they point to must be there until they are. */
Value value_encoded(const Buf *encoded); /* one value that is encoded already */
typedef struct TextList {
    const char *const *texts;
    size_t n;
} TextList;
Value value_texts(const TextList *list);
