#include "guest/interpreter/checkpoint/generators.h"

#include "guest/interpreter/runtime.h"

static PyObject *of_module(const char *module_name, const char *name)
{
    PyObject *module = PyDict_GetItemString(runtime.modules, module_name);

    return module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), name) : NULL;
}

/* The methods of the type in C, so that no Python code runs. */
void generators_keep(Generators *ret)
{
    PyObject *type = of_module("_random", "Random"), *generator = of_module("random", "_inst");

    *ret = (Generators){0};
    if (!type || !generator || !PyType_Check(type) || !PyObject_TypeCheck(generator, (PyTypeObject *)type))
        return;
    ret->type = Py_NewRef(type);
    ret->generator = Py_NewRef(generator);
    ret->state = PyObject_CallMethod(type, "getstate", "O", generator);
    ret->gauss_next = PyObject_GetAttrString(generator, "gauss_next");
    PyErr_Clear();
}

static void forget(PyObject *result)
{
    Py_XDECREF(result);
    PyErr_Clear();
}

void generators_restore(const Generators *generators)
{
    if (generators->state)
        forget(PyObject_CallMethod(generators->type, "setstate", "OO", generators->generator,
                                   generators->state));
    if (generators->gauss_next)
        PyObject_SetAttrString(generators->generator, "gauss_next", generators->gauss_next);
    PyErr_Clear();
}

void generators_seed(const Generators *generators)
{
    PyObject *numpy_seed = of_module("numpy.random.mtrand", "seed");

    if (generators->type) {
        forget(PyObject_CallMethod(generators->type, "seed", "O", generators->generator));
        PyObject_SetAttrString(generators->generator, "gauss_next", Py_None);
        PyErr_Clear();
    }
    if (numpy_seed)
        forget(PyObject_CallNoArgs(numpy_seed));
}

void generators_deinit(Generators *generators)
{
    Py_CLEAR(generators->type);
    Py_CLEAR(generators->generator);
    Py_CLEAR(generators->state);
    Py_CLEAR(generators->gauss_next);
}
