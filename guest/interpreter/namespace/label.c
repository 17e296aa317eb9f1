#include "guest/interpreter/namespace/label.h"

#include <string.h>

#include "guest/interpreter/text.h"

static const char ellipsis[] = "\xe2\x80\xa6";

/* The end of the last whole character within `n` bytes. */
static size_t whole(const char *text, size_t n)
{
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void add_cut(Label *label, const char *text)
{
    size_t limit = LIMIT_NOTE - (sizeof(ellipsis) - 1);

    if (label->size > limit) {
        label->size = whole(label->data, limit);
    } else {
        size_t n = whole(text, limit - label->size);
        memcpy(label->data + label->size, text, n);
        label->size += n;
    }
    memcpy(label->data + label->size, ellipsis, sizeof(ellipsis) - 1);
    label->size += sizeof(ellipsis) - 1;
    label->cut = true;
}

void label_add(Label *label, const char *text, size_t size)
{
    if (label->cut)
        return;
    if (!utf8_valid(text, size)) {
        text = "?";
        size = 1;
    }
    if (size > LIMIT_NOTE - label->size) {
        add_cut(label, text);
    } else {
        memcpy(label->data + label->size, text, size);
        label->size += size;
    }
}

void label_add_str(Label *label, PyObject *str)
{
    Utf8 text _cleanup_(utf8_deinit) = UTF8_NULL;
    /* A part has one character more than fits, so that a cut shows, and what may be very long is not encoded
     * whole. */
    _pyref_ PyObject *part =
        PyUnicode_GetLength(str) > LIMIT_NOTE ? PyUnicode_Substring(str, 0, LIMIT_NOTE + 1) : Py_NewRef(str);

    if (part && utf8_view(part, &text) == 0) {
        label_add(label, text.data, text.size);
    } else {
        PyErr_Clear();
        label_add(label, "?", 1);
    }
}

void write_label_of(Writer *w, PyObject *str)
{
    Label label;

    label_init(&label);
    label_add_str(&label, str);
    write_text_n(w, label.data, label.size);
}
