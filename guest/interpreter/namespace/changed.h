/* The field `changed` of what a cell has done. */
#pragma once

#include "guest/interpreter/pyref.h"
#include "proto/schema.h"

typedef enum ChangeKind {
    CHANGE_ADDED,
    CHANGE_CHANGED,
    CHANGE_DELETED,
    CHANGE_KINDS,
} ChangeKind;

typedef struct Change {
    ChangeKind kind;
    PyObject *name, *value; /* owned; a deleted one has no value */
} Change;

typedef struct Changes {
    Change kept[LIMIT_CHANGED];
    size_t count, more, of_kind[CHANGE_KINDS];
} Changes;

/* Names added, changed and deleted since the last call, LIMIT_CHANGED of them at most. With the GIL, all of
 * them. */
void changes_collect(Changes *ret);
void changes_release(Changes *changes);

/* Returns the message about the changes, unless `count` is 0; points to `changes`. */
MsgChanged changes_say(const Changes *changes);
