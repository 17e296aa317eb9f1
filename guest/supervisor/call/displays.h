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
    size_t dropped; /* displays over the limits; one notice at the end tells of them */
    bool clearing;  /* the next display takes the place of all */
} Displays;

void displays_init(Displays *displays);
void displays_deinit(Displays *displays);

/* Refuses an update of no display in particular that shows something. 0, or -EPROTO with a Problem. */
int display_decode(MsgDisplay *ret, const msgpack_object_map *body, Problem *problem);
int display_check(const MsgDisplay *display, Problem *problem);

/* Keeps a copy. An update takes the place of the display with the same display_id, if there is one; without a
 * display_id it takes back all that was shown. false: the display is over the limits, counted and dropped. */
bool displays_add(Displays *displays, const MsgDisplay *display);

/* Its metadata, an empty map where it has none. */
Value display_metadata(const MsgDisplay *display);

/* The array `displays` of the record, the notice included. */
Value displays_say(const Displays *displays);

/* Decodes what the interpreter says about a cell that ended by itself: checked, but its own words. *ret
 * points into the message; its displays are added to `displays`. 0, or -EPROTO with a Problem. */
int executed_decode(MsgCellExecuted *ret, Displays *displays, const msgpack_object_map *body,
                    Problem *problem);
