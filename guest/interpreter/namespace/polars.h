/* Frames and series of polars. */
#pragma once

#include "guest/interpreter/namespace/facts.h"

/* The dtype of a series is made by Python, and so is left out. */
void polars_facts(PyObject *object, int ndim, Facts *ret);
