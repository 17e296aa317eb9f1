/* Python's threads, which a fork leaves behind. */
#pragma once

#include "guest/interpreter/checkpoint/notes.h"
#include "guest/interpreter/pyref.h"

/* In a fork, before Python learns of it and forgets them. Runs no code of the cells. */
void threads_note(Notes *notes);
