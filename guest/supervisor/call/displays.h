/* The displays of one cell, checked and kept encoded until the record is written. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/list.h"
#include "proto/schema.h"

typedef struct Displays {
    List entries; /* of DisplayEntry, in order */
    size_t count;
    size_t bytes;
    size_t nodes;
    size_t dropped; /* over the limits; told in one notice at the end */
    bool clearing;  /* what there is goes when there is something new */
} Displays;

void displays_init(Displays *displays);
void displays_deinit(Displays *displays);

/* Refuses what shows something in an update of no display in particular. 0, or -EPROTO with a Problem. */
int display_decode(MsgDisplay *ret, const msgpack_object_map *body, Problem *problem);
int display_check(const MsgDisplay *display, Problem *problem);

/* Keeps a copy. One with `update` takes the place of that with the same display_id, if there is one; without
 * display_id it takes back all that was shown. What is over the limits is counted and dropped: false then. */
bool displays_add(Displays *displays, const MsgDisplay *display);

/* Its metadata, an empty map where it has none. */
Value display_metadata(const MsgDisplay *display);

/* The array `displays` of the record, the notice included. */
Value displays_say(const Displays *displays);

/* What the interpreter says about a cell that ended by itself: checked, but its own words. Points into the
 * message; its displays are added to `displays`. 0, or -EPROTO with a Problem. */
int executed_decode(MsgCellExecuted *ret, Displays *displays, const msgpack_object_map *body,
                    Problem *problem);
