/* Names of cells that have changed since the last look. No value is held for it, so that nobody's life is
 * prolonged: names are compared with the addresses of what they were bound to. So this is not seen: a name
 * bound to a new object that has taken the address of the old one and looks like it; a change in place that
 * leaves the length, or the shape of an array or frame, as it was; and any in an object that has none. A name
 * bound to the object that it is bound to already has not changed. */
#pragma once

#include "guest/interpreter/pyref.h"
#include "proto/schema.h"

typedef enum NamesKind {
    NAMES_ADDED,
    NAMES_CHANGED,
    NAMES_DELETED,
    NAMES_KINDS,
} NamesKind;

/* LIMIT_CHANGED names at most. */
typedef struct NameChanges {
    PyObject *names[NAMES_KINDS]; /* lists or NULL: of descriptions, or of names with plain values */
    size_t count, more;
} NameChanges;

/* Listed names, those without a leading underscore, that were bound, deleted or changed since the last call
 * of either function. Leaves no exception set. */
void names_collect(NameChanges *ret);
void names_forget(void);

void name_changes_deinit(NameChanges *changes);

/* Returns the message about the changes, unless `count` is 0; points to `changes`. */
MsgChanged name_changes_encode(const NameChanges *changes);
