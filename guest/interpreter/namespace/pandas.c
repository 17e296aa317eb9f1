#include "guest/interpreter/namespace/pandas.h"

#include <string.h>

#include "guest/interpreter/namespace/array.h"
#include "guest/interpreter/namespace/native.h"

/* An object has a manager (`_mgr`) with the labels of its axes, the rows last, and with blocks: each has one
 * array of NumPy for several columns, transposed so that its last dimension is the rows, or one extension
 * array. Most extension arrays have an array of NumPy themselves. Managers and blocks are types in Cython, or
 * have the same names in their own dictionary. */

static NativeName manager_name = {.text = "_mgr"}, axes_name = {.text = "axes"},
                  blocks_name = {.text = "blocks"}, values_name = {.text = "values"},
                  array_name = {.text = "_ndarray"}, dtype_name = {.text = "_dtype"},
                  data_name = {.text = "_data"}, range_name = {.text = "_range"};

static PyObject *attribute(PyObject *object, NativeName *name)
{
    PyObject *value = native_get(object, "pandas._libs.", name->text);

    return value ? value : native_get_own(object, name);
}

/* The array of NumPy in the values of a block or of an axis. */
static PyObject *find_array(PyObject *values)
{
    if (array_is_type(Py_TYPE(values)))
        return Py_NewRef(values);

    _pyref_ PyObject *array = attribute(values, &array_name);

    if (!array)
        array = native_get_own(values, &data_name); /* of masked ones, such as Int64 */
    return array && array_is_type(Py_TYPE(array)) ? take(array) : NULL;
}

static Py_ssize_t range_length(PyObject *range)
{
    Py_ssize_t n = Py_TYPE(range) == &PyRange_Type ? PyObject_Size(range) : -1;

    PyErr_Clear();
    return n;
}

/* -1: not known. */
static Py_ssize_t axis_length(PyObject *axis)
{
    _pyref_ PyObject *range = native_get_own(axis, &range_name);

    if (range)
        return range_length(range);

    _pyref_ PyObject *values = native_get_own(axis, &data_name);
    _pyref_ PyObject *array = values ? find_array(values) : NULL;
    const Py_ssize_t *shape;

    return array && array_shape(array, &shape) == 1 ? shape[0] : -1;
}

static void axes_shape(PyObject *manager, int ndim, Py_ssize_t ret_shape[2])
{
    _pyref_ PyObject *axes = attribute(manager, &axes_name);
    bool known = axes && PyList_CheckExact(axes) && PyList_GET_SIZE(axes) == ndim;

    for (int i = 0; i < ndim; i++)
        ret_shape[ndim - 1 - i] = known ? axis_length(PyList_GET_ITEM(axes, i)) : -1;
}

static PyObject *find_blocks(PyObject *manager)
{
    _pyref_ PyObject *blocks = attribute(manager, &blocks_name);

    return blocks && PyTuple_CheckExact(blocks) ? take(blocks) : NULL;
}

/* Fills in the part of a shape that the axes do not tell. An extension array of one dimension is one
 * column. */
static void blocks_shape(PyObject *blocks, Py_ssize_t ret_shape[2])
{
    Py_ssize_t rows = -1, columns = 0;
    const Py_ssize_t *shape;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(blocks); i++) {
        _pyref_ PyObject *values = attribute(PyTuple_GET_ITEM(blocks, i), &values_name);
        _pyref_ PyObject *array = values ? find_array(values) : NULL;
        int ndim = array ? array_shape(array, &shape) : 0;

        if (!values)
            return;
        columns += ndim == 2 ? shape[0] : 1;
        if (ndim == 1 || ndim == 2)
            rows = shape[ndim - 1];
    }
    if (ret_shape[0] < 0)
        ret_shape[0] = rows;
    if (ret_shape[1] < 0)
        ret_shape[1] = columns;
}

bool pandas_shape(PyObject *object, int ndim, Py_ssize_t ret_shape[2])
{
    _pyref_ PyObject *manager = native_get_own(object, &manager_name);

    if (!manager)
        return false;
    ret_shape[1] = 0;
    axes_shape(manager, ndim, ret_shape);
    if (ret_shape[0] < 0 || ret_shape[1] < 0) {
        _pyref_ PyObject *blocks = find_blocks(manager);
        if (blocks)
            blocks_shape(blocks, ret_shape);
    }
    return ret_shape[0] >= 0 && ret_shape[1] >= 0;
}

/* Names the dtype of an extension array where that is one of NumPy, or is certain all the same. Whether it is
 * one of NumPy: the array of NumPy inside is all of the data then. */
static bool extension_dtype(PyObject *values, Label *ret)
{
    static const char category[] = "category";
    _pyref_ PyObject *dtype = attribute(values, &dtype_name);

    if (!dtype)
        return false;
    array_dtype_name(dtype, ret);
    if (ret->size > 0)
        return true;
    if (strcmp(Py_TYPE(dtype)->tp_name, "CategoricalDtype") == 0)
        label_add(ret, category, sizeof(category) - 1);
    return false;
}

/* The bytes of a block, -1 where they are not known; *ret_dtype gets the name of its dtype. */
static Py_ssize_t block_data(PyObject *block, Label *ret_dtype)
{
    _pyref_ PyObject *values = attribute(block, &values_name);

    if (!values)
        return -1;
    if (array_is_type(Py_TYPE(values))) {
        array_dtype(values, ret_dtype);
        return array_bytes(values);
    }
    _pyref_ PyObject *array = attribute(values, &array_name);
    bool all = extension_dtype(values, ret_dtype);
    return all && array && array_is_type(Py_TYPE(array)) ? array_bytes(array) : -1;
}

void pandas_facts(PyObject *object, int ndim, Facts *ret)
{
    _pyref_ PyObject *manager = native_get_own(object, &manager_name);
    _pyref_ PyObject *blocks = manager ? find_blocks(manager) : NULL;

    if (!blocks || !pandas_shape(object, ndim, ret->shape))
        return;
    ret->ndim = ndim;
    ret->bytes = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(blocks); i++) {
        label_init(&ret->dtype);
        Py_ssize_t bytes = block_data(PyTuple_GET_ITEM(blocks, i), &ret->dtype);
        ret->bytes = ret->bytes < 0 || bytes < 0 ? -1 : ret->bytes + bytes;
    }
    if (ndim == 2)
        label_init(&ret->dtype);
}
