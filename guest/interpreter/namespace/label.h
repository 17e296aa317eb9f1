/* Short text for the wire: UTF-8 of at most LIMIT_NOTE bytes, with an ellipsis where something was cut off.
 */
#pragma once

#include "guest/interpreter/pyref.h"
#include "proto/wire.h"

typedef struct Label {
    size_t size;
    bool cut;
    char data[LIMIT_NOTE];
} Label;

static inline void label_init(Label *label)
{
    label->size = 0;
    label->cut = false;
}

/* Adds text; after a cut nothing more is added. Bytes that are not UTF-8 become a question mark. */
void label_add(Label *label, const char *text, size_t size);

/* Adds a str (or the text of an instance of a subclass); surrogates become backslash escapes. */
void label_add_str(Label *label, PyObject *str);

/* Points into the label; absent when that is empty. */
static inline Text label_text(const Label *label)
{
    return (Text){label->size > 0 ? label->data : NULL, label->size};
}

/* As one item of an array of text. */
void write_label_of(Writer *w, PyObject *str);
