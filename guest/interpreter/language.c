#include "guest/interpreter/language.h"

static PyObject *runs; /* lives as long as the process */

void language_set(PyObject *function)
{
    Py_XSETREF(runs, Py_NewRef(function));
}

PyObject *language_function(void)
{
    return runs;
}
