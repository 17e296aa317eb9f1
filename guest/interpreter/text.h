/* Text between Python and the wire. */
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

/* -1 with a MemoryError. */
int utf8_view(PyObject *str, Utf8 *ret);

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
