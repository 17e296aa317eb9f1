#include "guest/interpreter/namespace/polars.h"

#include "guest/interpreter/namespace/native.h"

/* A frame or series has one object of the library's Rust part. */

static bool is_known(const Facts *facts)
{
    for (int i = 0; i < facts->ndim; i++) {
        if (facts->shape[i] < 0)
            return false;
    }
    return true;
}

void polars_facts(PyObject *object, int ndim, Facts *ret)
{
    static NativeName frame_name = {.text = "_df"}, series_name = {.text = "_s"};
    const char *type = ndim == 2 ? ".PyDataFrame" : ".PySeries";
    _pyref_ PyObject *data = native_get_own(object, ndim == 2 ? &frame_name : &series_name);

    if (!data)
        return;
    ret->ndim = ndim;
    ret->shape[0] = native_size(data, type, ndim == 2 ? "height" : "len");
    if (ndim == 2)
        ret->shape[1] = native_size(data, type, "width");
    if (is_known(ret))
        ret->bytes = native_size(data, type, "estimated_size");
    else
        ret->ndim = -1;
}
