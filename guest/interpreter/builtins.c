#include "guest/interpreter/builtins.h"

#include "guest/interpreter/pyref.h"

static struct {
    PyObject *dict, *copy;
    uint64_t version; /* of the dictionary: another one after each change */
} builtins;

#if PY_VERSION_HEX >= 0x030C0000

static uint64_t changes;

static int on_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    changes++;
    return 0;
}

static int watch(void)
{
    int id = PyDict_AddWatcher(on_event);

    return id < 0 ? -1 : PyDict_Watch(id, builtins.dict);
}

static uint64_t version_now(void)
{
    return changes;
}

#else

static int watch(void)
{
    return 0;
}

static uint64_t version_now(void)
{
    return ((PyDictObject *)builtins.dict)->ma_version_tag;
}

#endif

int builtins_init(void)
{
    _pyref_ PyObject *module = PyImport_ImportModule("builtins");

    builtins.dict = module ? Py_NewRef(PyModule_GetDict(module)) : NULL;
    builtins.copy = builtins.dict ? PyDict_Copy(builtins.dict) : NULL;
    if (!builtins.copy || watch() < 0)
        return -1;
    builtins.version = version_now();
    return 0;
}

void builtins_restore(void)
{
    if (builtins.version == version_now())
        return;
    PyDict_Update(builtins.dict, builtins.copy);
    builtins.version = version_now();
}
