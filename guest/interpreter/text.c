#include "guest/interpreter/text.h"

#include <stdio.h>
#include <string.h>

int utf8_view(PyObject *str, Utf8 *ret)
{
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(str, &size);

    if (data) {
        *ret = (Utf8){.data = data, .size = (size_t)size};
        return 0;
    }
    PyErr_Clear();

    PyObject *bytes = PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace");

    if (!bytes)
        return -1;
    *ret = (Utf8){.data = PyBytes_AS_STRING(bytes), .size = (size_t)PyBytes_GET_SIZE(bytes), .owner = bytes};
    return 0;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The end of the last whole character within n bytes, and the begin of the first one at or after n. */
static size_t character_end(const Utf8 *text, size_t n)
{
    while (n > 0 && n < text->size && is_continuation(text->data[n]))
        n--;
    return n;
}

static size_t character_begin(const Utf8 *text, size_t n)
{
    while (n < text->size && is_continuation(text->data[n]))
        n++;
    return n;
}

static void write_cut(Writer *w, const Utf8 *text, size_t limit, TextCut cut)
{
    char mark[80];
    int n = snprintf(mark, sizeof(mark), "\n... [%zu bytes in all, cut to %zu] ...\n", text->size, limit);
    size_t room = limit - (size_t)n;
    size_t head = character_end(text, cut == CUT_END ? room : room / 2);
    size_t tail = character_begin(text, cut == CUT_END ? text->size : text->size - (room - head));

    msgpack_pack_str(&w->packer, head + (size_t)n + text->size - tail);
    msgpack_pack_str_body(&w->packer, text->data, head);
    msgpack_pack_str_body(&w->packer, mark, (size_t)n);
    msgpack_pack_str_body(&w->packer, text->data + tail, text->size - tail);
}

void write_str(Writer *w, PyObject *str, size_t limit, TextCut cut)
{
    Utf8 text _cleanup_(utf8_deinit) = UTF8_NULL;

    if (!str || !PyUnicode_Check(str)) {
        write_nil(w);
    } else if (utf8_view(str, &text) < 0) {
        PyErr_Clear();
        write_text(w, "[text left out: out of memory]");
    } else if (text.size > limit) {
        write_cut(w, &text, limit, cut);
    } else {
        msgpack_pack_str_with_body(&w->packer, text.data, text.size);
    }
}
