/* Starting Python. */
#pragma once

#include "guest/interpreter/pyref.h"
#include "proto/base/problem.h"

/* From nothing to an interpreter that can run cells; the calling thread holds the GIL then. -EPROTO with a
 * Problem. */
int start_python(Problem *problem);
