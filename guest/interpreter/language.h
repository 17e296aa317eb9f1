/* The language of cells, where it is not Python: a function in Python that has them run by a program beside
 * the interpreter (limpet_languages). */
#pragma once

#include "guest/interpreter/pyref.h"

/* function(code, number) → the value of the cell, or None; it raises what the cell ended with. From then on
 * it is called in place of compiling the cell. */
void language_set(PyObject *function);

/* NULL: Python. */
PyObject *language_function(void);
