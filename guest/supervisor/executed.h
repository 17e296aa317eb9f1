/* What the interpreter says about a cell that ended by itself: checked, but its own words. */
#pragma once

#include "guest/supervisor/displays.h"
#include "proto/wire.h"

typedef struct PythonError {
    Text name; /* data NULL: there is no error */
    Text message;
    Text traceback;
} PythonError;

typedef struct Executed {
    Text result; /* data NULL: none */
    PythonError error;
    const msgpack_object_map *changed; /* NULL: nothing */
    bool spawned;
    double cpu;
    uint64_t peak_memory;
} Executed;

/* Points into the message; its displays are added to `displays`. 0, or -EPROTO with a Problem. */
int executed_decode(Executed *ret, Displays *displays, const msgpack_object_map *body, Problem *problem);
