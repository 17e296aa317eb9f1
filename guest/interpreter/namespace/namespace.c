#include "guest/interpreter/namespace/namespace.h"

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/namespace/variable.h"

void listed_hold(Listed *ret)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;

    ret->count = ret->more = 0;
    while (PyDict_Next(runtime.main_dict, &at, &name, &value)) {
        if (!variable_is_listed(name)) {
            continue;
        } else if (ret->count == LIMIT_NAMESPACE) {
            ret->more++;
        } else {
            ret->names[ret->count] = Py_NewRef(name);
            ret->values[ret->count++] = Py_NewRef(value);
        }
    }
}

void listed_release(Listed *listed)
{
    for (size_t i = 0; i < listed->count; i++) {
        Py_DECREF(listed->names[i]);
        Py_DECREF(listed->values[i]);
    }
}

static void write_names(Writer *w, const void *source)
{
    const Listed *listed = source;

    write_array(w, listed->count);
    for (size_t i = 0; i < listed->count; i++)
        write_variable(w, listed->names[i], listed->values[i]);
}

MsgNamespace listed_say(const Listed *listed)
{
    return (MsgNamespace){.names = {.write = write_names, .source = listed}, .more = listed->more};
}
