#include "guest/interpreter/compile.h"

#include <string.h>

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/split.h"

static int future_flags;

static void note_future(PyObject *code)
{
    if (code)
        future_flags |= ((PyCodeObject *)code)->co_flags & PyCF_MASK;
}

static PyObject *compile_text(const char *text, PyObject *filename, int start)
{
    PyCompilerFlags flags = {
        .cf_flags = PyCF_SOURCE_IS_UTF8 | PyCF_IGNORE_COOKIE | PyCF_ALLOW_TOP_LEVEL_AWAIT | future_flags,
        .cf_feature_version = PY_MINOR_VERSION,
    };

    return Py_CompileStringObject(text, filename, start, &flags, -1);
}

static size_t count_lines(const char *text, size_t size)
{
    size_t n = 0;

    for (const char *end = text + size; (text = memchr(text, '\n', (size_t)(end - text))); text++)
        n++;
    return n;
}

/* The last statement, behind as many empty lines as there were lines before it. */
static PyObject *compile_tail(const char *text, size_t size, size_t offset, PyObject *filename)
{
    size_t lines = count_lines(text, offset);
    _cleanup_(freep) char *copy = malloc(lines + size - offset + 1);

    if (!copy)
        return PyErr_NoMemory();
    memset(copy, '\n', lines);
    memcpy(copy + lines, text + offset, size - offset + 1);
    return compile_text(copy, filename, Py_eval_input);
}

static PyObject *compile_head(const char *text, size_t offset, PyObject *filename)
{
    _cleanup_(freep) char *copy = strndup(text, offset);

    return copy ? compile_text(copy, filename, Py_file_input) : PyErr_NoMemory();
}

/* Both halves of a proposed split. -1 with an exception: a SyntaxError may mean no more than a wrong
 * proposal. */
static int compile_halves(const char *text, size_t size, size_t offset, PyObject *filename, Compiled *ret)
{
    _pyref_ PyObject *tail = compile_tail(text, size, offset, filename);
    _pyref_ PyObject *head = NULL;

    if (!tail)
        return -1;
    if (offset > 0) {
        head = compile_head(text, offset, filename);
        if (!head)
            return -1;
    }
    *ret = (Compiled){.head = take(head), .tail = take(tail)};
    return 0;
}

/* By the parser, which is always right. */
static int compile_parsed(PyObject *source, PyObject *filename, Compiled *ret)
{
    _pyref_ PyObject *pair = PyObject_CallFunction(runtime.compile_cell, "OOi", source, filename,
                                                   PyCF_ALLOW_TOP_LEVEL_AWAIT | future_flags);
    PyObject *head, *tail;

    if (!pair || !PyArg_ParseTuple(pair, "OO", &head, &tail))
        return -1;
    ret->head = head == Py_None ? NULL : Py_NewRef(head);
    ret->tail = tail == Py_None ? NULL : Py_NewRef(tail);
    return 0;
}

static int compile_by_split(const char *text, size_t size, PyObject *source, PyObject *filename,
                            Compiled *ret)
{
    Split split = split_cell(text, size, PY_VERSION_HEX >= 0x030C0000);

    if (split.kind == SPLIT_WHOLE) {
        ret->head = compile_text(text, filename, Py_file_input);
        return ret->head ? 0 : -1;
    }
    if (split.kind == SPLIT_TAIL) {
        if (compile_halves(text, size, split.offset, filename, ret) == 0)
            return 0;
        if (!PyErr_ExceptionMatches(PyExc_SyntaxError))
            return -1;
        PyErr_Clear();
    }
    return compile_parsed(source, filename, ret);
}

int compile_cell(PyObject *source, PyObject *filename, Compiled *ret)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(source, &size);

    if (!text)
        return -1;
    if (memchr(text, '\0', (size_t)size)) {
        PyErr_SetString(PyExc_SyntaxError, "source code cannot contain null bytes");
        return -1;
    }
    *ret = (Compiled){0};
    if (compile_by_split(text, (size_t)size, source, filename, ret) < 0)
        return -1;
    note_future(ret->head);
    return 0;
}
