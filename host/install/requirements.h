/* Requirements that clients ask to be installed: the text of a requirements file, of which only requirements
 * are taken. Pure. */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/problem.h"
#include "proto/schema.h"
#include "proto/wire.h"

/* Appends one requirement a line, without comments and blanks. -EPROTO with the problem set where a line is
 * no requirement, such as an option of pip, or where there is none. */
int requirements_read(Buf *ret, Text text, Problem *problem);

/* Returns whether each of them is of a package that the list has: names with commas between. */
bool requirements_are_of(const Buf *requirements, const char *names);

/* ---- locks ----
 *
 * The lock of a set of packages: a requirements file that an installer has written, of which nothing is
 * believed. Pure. */

/* The packages that it names, as an array to be written of MsgPackage. What is no line of a lock is passed
 * over, and so is what would be too many. `lock` has to be there until then. */
Value lock_packages(const Text *lock);

/* Returns whether all of a lock is text that may be passed on. */
bool lock_is_sound(Text lock);
