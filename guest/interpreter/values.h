/* Values between Python and the wire. */
#pragma once

#include "guest/interpreter/pyref.h"
#include "proto/wire.h"

/* The UTF-8 of a str; surrogates, which have none, as backslash escapes. */
typedef struct Utf8 {
    const char *data; /* lives as long as the str and `owner` */
    size_t size;
    PyObject *owner;
} Utf8;

#define UTF8_NULL ((Utf8){0})

static inline void utf8_deinit(Utf8 *text)
{
    Py_CLEAR(text->owner);
}

typedef enum TextCut {
    CUT_END,
    CUT_MIDDLE,
} TextCut;

/* A str as a field of a message. */
typedef struct StrText {
    Text text; /* absent for NULL and for what is no str */
    Utf8 utf8;
    Buf cut; /* memory of `text` when it is not all of it */
} StrText;

/* Text over `limit` bytes is cut and says so; the mark is within the limit. Lives as long as the str and
 * *ret. */
void str_text(StrText *ret, PyObject *str, size_t limit, TextCut cut);
void str_text_deinit(StrText *text);

/* The plain Python value that `bytes` hold in msgpack, which are checked before anything is made of them.
 * NULL with a reason, and perhaps an exception. */
PyObject *object_decode(const void *bytes, size_t size, const char **ret_why);

/* Plain Python values to msgpack. No code of the cell runs in it: only the built-in types themselves are
 * taken, and subclasses of str, int and float, whose content is read past anything they override. */

/* Share that one value may use of the limits of a message; shared by the values of a display. */
typedef struct ValueBudget {
    size_t nodes;
    size_t keys;                 /* of containers within each other */
    size_t depth;                /* containers within each other */
    const PyTypeObject *refused; /* where a value is not plain data: its type */
} ValueBudget;

/* A share of the limits that leaves room for the record around it. */
#define VALUE_BUDGET                                                                                         \
    ((ValueBudget){.nodes = LIMIT_NODES / 8, .keys = LIMIT_KEYS / 4, .depth = LIMIT_DEPTH / 2 - 2})

/* Appends one value. NULL, or why it cannot be: a phrase such as "it nests too deep"; the buffer then holds a
 * part of it. Out of memory shows in writer_finish(). */
const char *write_value(Writer *w, PyObject *value, ValueBudget *budget);

/* Writes plain data that limpet_runtime has made, and keeps to the limits of a message. */
void write_made(Writer *w, const void *object);
