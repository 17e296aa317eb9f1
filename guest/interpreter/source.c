#include "guest/interpreter/source.h"

#include "guest/interpreter/runtime.h"

static struct {
    PyObject *names[SOURCES_MAX]; /* a ring */
    size_t sizes[SOURCES_MAX];
    size_t first, count, bytes;
} sources;

static void drop_oldest(void)
{
    PyObject *name = sources.names[sources.first];

    if (PyDict_DelItem(runtime.linecache, name) < 0)
        PyErr_Clear();
    Py_DECREF(name);
    sources.bytes -= sources.sizes[sources.first];
    sources.first = (sources.first + 1) % SOURCES_MAX;
    sources.count--;
}

static void note(PyObject *filename, size_t size)
{
    while (sources.count > 0 && (sources.count == SOURCES_MAX || sources.bytes + size > SOURCES_BYTES))
        drop_oldest();

    size_t at = (sources.first + sources.count++) % SOURCES_MAX;

    sources.names[at] = Py_NewRef(filename);
    sources.sizes[at] = size;
    sources.bytes += size;
}

/* Lines as Python counts them: str.splitlines() would also break at form feeds and the like. Each has its
 * end, as linecache gives the last one of a file one. */
static PyObject *split_lines(PyObject *source)
{
    Py_ssize_t size = PyUnicode_GET_LENGTH(source), at = 0;
    PyObject *lines = PyList_New(0);

    while (lines && at < size) {
        Py_ssize_t newline = PyUnicode_FindChar(source, '\n', at, size, 1);
        Py_ssize_t end = newline < 0 ? size : newline + 1;
        _pyref_ PyObject *rest = PyUnicode_Substring(source, at, end);
        _pyref_ PyObject *line = newline < 0 && rest ? PyUnicode_FromFormat("%U\n", rest) : Py_XNewRef(rest);
        if (!line || PyList_Append(lines, line) < 0)
            Py_CLEAR(lines);
        at = end;
    }
    return lines;
}

int source_register(PyObject *filename, PyObject *source)
{
    _pyref_ PyObject *lines = split_lines(source);
    Py_ssize_t size = PyUnicode_GET_LENGTH(source);

    if (!lines)
        return -1;
    /* Without a modification time linecache.checkcache() leaves the entry alone. */
    _pyref_ PyObject *entry = Py_BuildValue("(nOOO)", size, Py_None, lines, filename);
    if (!entry || PyDict_SetItem(runtime.linecache, filename, entry) < 0)
        return -1;
    note(filename, (size_t)size);
    return 0;
}
