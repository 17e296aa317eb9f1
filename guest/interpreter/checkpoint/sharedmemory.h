/* Memory that a fork does not copy. */
#pragma once

#include "guest/interpreter/checkpoint/notes.h"

/* Notes that there is some which may be written. */
void sharedmemory_note(Notes *notes);
