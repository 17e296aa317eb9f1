#include "clients/python/native/native.h"

Native *native_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static int take_error(PyObject *errors, const char *name, PyObject **ret)
{
    *ret = PyObject_GetAttrString(errors, name);
    return *ret ? 0 : -1;
}

static int take_errors(Native *native)
{
    _cleanup_(py_decrefp) PyObject *errors = PyImport_ImportModule("limpet.errors");

    if (!errors || take_error(errors, "BadRequest", &native->bad_request) < 0 ||
        take_error(errors, "TooLarge", &native->too_large) < 0)
        return -1;
    return take_error(errors, "ProtocolMismatch", &native->protocol_mismatch);
}

static int add_type(PyObject *module, PyType_Spec *spec)
{
    _cleanup_(py_decrefp) PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

    return type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
}

static int begin(PyObject *module)
{
    Native *native = native_of(module);

    if (take_errors(native) < 0)
        return -1;
    return add_type(module, &wire_spec) < 0 ? -1 : add_type(module, &shape_spec);
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    Native *native = native_of(module);

    Py_VISIT(native->bad_request);
    Py_VISIT(native->too_large);
    Py_VISIT(native->protocol_mismatch);
    return 0;
}

static int clear(PyObject *module)
{
    Native *native = native_of(module);

    Py_CLEAR(native->bad_request);
    Py_CLEAR(native->too_large);
    Py_CLEAR(native->protocol_mismatch);
    for (size_t i = 0; i < KEYS_KEPT; i++)
        Py_CLEAR(native->keys.kept[i]);
    return 0;
}

static void end(void *module)
{
    clear(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)begin},
    {0, NULL},
};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "limpet._native",
    .m_size = sizeof(Native),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = end,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
