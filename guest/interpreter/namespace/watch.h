/* Watch on bindings in the namespace of cells, of which Python 3.12 and later tells while they happen. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Names bound or deleted since watch_forget(). */
typedef struct WatchedNames {
    PyObject
        *names; /* dict of those bound or deleted, plain str, to whether they were bound before; or NULL */
    bool incomplete; /* there was no memory to note one */
    bool odd_keys;   /* keys that are not plain str have been there: lookups in the namespace may run code */
} WatchedNames;

extern WatchedNames watched;

/* Once, when runtime.main_dict is there. -1 with an exception. */
int watch_init(void);

/* After a cell: `watched` is complete now, also where nobody watched to its end. */
void watch_complete(void);
void watch_forget(void);
