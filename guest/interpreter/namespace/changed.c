#include "guest/interpreter/namespace/changed.h"

#include <string.h>

#include "guest/interpreter/namespace/bindings.h"
#include "guest/interpreter/namespace/variable.h"

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

/* Leaves what is kept as it is, of which only `count` are there. */
static void changes_init(Changes *changes)
{
    changes->count = changes->more = 0;
    memset(changes->of_kind, 0, sizeof(changes->of_kind));
}

static void note_change(void *context, PyObject *name, bool before, PyObject *value)
{
    Changes *changes = context;
    ChangeKind kind = !value ? CHANGE_DELETED : before ? CHANGE_CHANGED : CHANGE_ADDED;

    if (changes->count == LIMIT_CHANGED) {
        changes->more++;
        return;
    }
    changes->kept[changes->count++] = (Change){kind, Py_NewRef(name), Py_XNewRef(value)};
    changes->of_kind[kind]++;
}

static void release(Changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        Py_DECREF(changes->kept[i].name);
        Py_XDECREF(changes->kept[i].value);
    }
}

static void write_kind(Writer *w, const Changes *changes, const char *key, ChangeKind kind)
{
    write_key(w, key);
    write_array(w, changes->of_kind[kind]);
    for (size_t i = 0; i < changes->count; i++) {
        const Change *change = &changes->kept[i];
        if (change->kind != kind)
            continue;
        if (change->value)
            write_variable(w, change->name, change->value);
        else
            write_label_of(w, change->name);
    }
}

void write_changed(Writer *w)
{
    Changes changes;

    changes_init(&changes);

    bindings_collect(note_change, &changes);
    if (changes.count == 0) {
        write_nil(w);
        return;
    }
    write_map(w, 4);
    write_kind(w, &changes, "added", CHANGE_ADDED);
    write_kind(w, &changes, "changed", CHANGE_CHANGED);
    write_kind(w, &changes, "deleted", CHANGE_DELETED);
    write_key(w, "more");
    write_uint(w, changes.more);
    release(&changes);
}
