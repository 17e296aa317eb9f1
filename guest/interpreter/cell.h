/* One cell, from its source to its outcome. */
#pragma once

#include "guest/interpreter/reply.h"
#include "proto/wire.h"

typedef struct CellRequest {
    uint64_t id; /* of the message */
    uint64_t execution_count;
    bool asks;   /* somebody answers its questions */
    bool script; /* nothing follows it */
    bool last;   /* the session ends with it */
    Text code;   /* read before any of it runs: the next message takes its place */
} CellRequest;

/* Runs the cell; whatever it does ends in a reply, which is to be sent, except where it ends the process.
 * Everything it wrote has left the process when this returns. 0 or a negative errno. */
int cell_run(const CellRequest *cell, Buf *reply);

/* Runs code before the first cell, for nobody: what it prints and shows goes nowhere. As (name, message,
 * traceback) what it ended with, or NULL when it ended well. */
PyObject *cell_set_up(Text code);
