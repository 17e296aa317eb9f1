/* Requirements that clients ask to be installed: the text of a requirements file, of which only requirements
 * are taken. Pure. */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/problem.h"
#include "proto/wire.h"

/* Appends one requirement a line, without comments and blanks. -EPROTO with the problem set where a line is
 * no requirement, such as an option of pip, or where there is none. */
int requirements_read(Buf *ret, Text text, Problem *problem);

/* Returns whether each of them is of a package that the list has: names with commas between. */
bool requirements_are_of(const Buf *requirements, const char *names);
