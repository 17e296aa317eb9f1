#include "guest/interpreter/namespace/namespace.h"

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/namespace/variable.h"

/* Held while they are described: libraries asked for the size of their data may let other threads run. */
typedef struct Listed {
    PyObject *names[LIMIT_NAMESPACE], *values[LIMIT_NAMESPACE];
    size_t count, more;
} Listed;

static void hold(Listed *ret)
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

static void release(Listed *listed)
{
    for (size_t i = 0; i < listed->count; i++) {
        Py_DECREF(listed->names[i]);
        Py_DECREF(listed->values[i]);
    }
}

void write_namespace(Writer *w)
{
    Listed listed;

    hold(&listed);
    write_key(w, "names");
    write_array(w, listed.count);
    for (size_t i = 0; i < listed.count; i++)
        write_variable(w, listed.names[i], listed.values[i]);
    write_key(w, "more");
    write_uint(w, listed.more);
    release(&listed);
}
