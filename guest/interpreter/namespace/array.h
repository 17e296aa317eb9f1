/* numpy.ndarray, without NumPy's headers and without running any Python. */
#pragma once

#include "guest/interpreter/namespace/facts.h"

/* Returns whether this is numpy.ndarray itself: no class statement makes a type like it. */
bool array_is_type(const PyTypeObject *type);

/* The rest is for objects of that type. */

/* The number of dimensions; *ret_shape lives as long as the array is not reshaped. */
int array_shape(PyObject *array, const Py_ssize_t **ret_shape);
Py_ssize_t array_bytes(PyObject *array);
void array_dtype(PyObject *array, Label *ret);

/* The name of a numpy.dtype as str() has it, except that of a structured one; nothing for other objects. */
void array_dtype_name(PyObject *dtype, Label *ret);
