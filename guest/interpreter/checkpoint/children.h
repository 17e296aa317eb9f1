/* The processes that cells have started. */
#pragma once

#include "guest/interpreter/checkpoint/notes.h"

/* Notes the children that run, or that nobody has waited for: a copy of the interpreter is not their
 * parent. */
void children_note(Notes *notes);
