#include "guest/interpreter/figures.h"

#include "guest/interpreter/runtime.h"

static PyObject *look_up(PyObject *dict, PyObject **name, const char *text)
{
    if (!*name && !(*name = PyUnicode_InternFromString(text)))
        return NULL;
    return PyDict_GetItemWithError(dict, *name);
}

/* pyplot's managers of figures by number, or NULL where they are not where they are known to be. */
static PyObject *managers(void)
{
    static PyObject *helpers_name, *type_name, *figures_name;
    PyObject *helpers = look_up(runtime.modules, &helpers_name, "matplotlib._pylab_helpers");
    PyObject *type =
        helpers && PyModule_Check(helpers) ? look_up(PyModule_GetDict(helpers), &type_name, "Gcf") : NULL;

    if (!type || !PyType_Check(type) || !((PyTypeObject *)type)->tp_dict)
        return NULL;
    return look_up(((PyTypeObject *)type)->tp_dict, &figures_name, "figs");
}

bool figures_are_open(void)
{
    static PyObject *pyplot;
    bool open = false;

    if (look_up(runtime.modules, &pyplot, "matplotlib.pyplot")) {
        PyObject *figures = managers();
        open = !figures || !PyDict_Check(figures) || PyDict_GET_SIZE(figures) > 0;
    }
    PyErr_Clear();
    return open;
}
