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

static int make_cut(Buf *ret, const Utf8 *text, size_t limit, TextCut cut)
{
    char mark[80];
    int n = snprintf(mark, sizeof(mark), "\n... [%zu bytes in all, cut to %zu] ...\n", text->size, limit);
    size_t room = limit - (size_t)n;
    size_t head = character_end(text, cut == CUT_END ? room : room / 2);
    size_t tail = character_begin(text, cut == CUT_END ? text->size : text->size - (room - head));
    int r = buf_append(ret, text->data, head);

    if (r == 0)
        r = buf_append(ret, mark, (size_t)n);
    return r < 0 ? r : buf_append(ret, text->data + tail, text->size - tail);
}

void str_text(StrText *ret, PyObject *str, size_t limit, TextCut cut)
{
    bool whole;

    *ret = (StrText){0};
    if (!str || !PyUnicode_Check(str))
        return;
    whole = utf8_view(str, &ret->utf8) == 0;
    if (!whole)
        PyErr_Clear();
    if (whole && ret->utf8.size <= limit)
        ret->text = (Text){ret->utf8.data, ret->utf8.size};
    else if (whole && make_cut(&ret->cut, &ret->utf8, limit, cut) == 0)
        ret->text = (Text){(const char *)buf_head(&ret->cut), ret->cut.size};
    else
        ret->text = text_of("[text left out: out of memory]");
}

void str_text_deinit(StrText *text)
{
    utf8_deinit(&text->utf8);
    buf_deinit(&text->cut);
}
