#include "guest/interpreter/namespace/changed.h"

#include <string.h>

#include "guest/interpreter/namespace/bindings.h"
#include "guest/interpreter/namespace/variable.h"

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

void changes_release(Changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        Py_DECREF(changes->kept[i].name);
        Py_XDECREF(changes->kept[i].value);
    }
}

static void write_kind(Writer *w, const Changes *changes, ChangeKind kind)
{
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

static void write_added(Writer *w, const void *changes)
{
    write_kind(w, changes, CHANGE_ADDED);
}

static void write_changed(Writer *w, const void *changes)
{
    write_kind(w, changes, CHANGE_CHANGED);
}

static void write_deleted(Writer *w, const void *changes)
{
    write_kind(w, changes, CHANGE_DELETED);
}

void changes_collect(Changes *ret)
{
    changes_init(ret);
    bindings_collect(note_change, ret);
}

MsgChanged changes_say(const Changes *changes)
{
    return (MsgChanged){
        .added = {.write = write_added, .source = changes},
        .changed = {.write = write_changed, .source = changes},
        .deleted = {.write = write_deleted, .source = changes},
        .more = changes->more,
    };
}
