/* The displays of one cell, checked and kept encoded until the record is written. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/list.h"
#include "proto/wire.h"

typedef struct Displays {
    List entries; /* of DisplayEntry, in order */
    size_t count;
    size_t bytes;
    size_t nodes;
    size_t dropped; /* over the limits; told in one notice at the end */
    bool clearing;  /* what there is goes when there is something new */
} Displays;

/* One display as it is on the wire; points into the message. */
typedef struct Display {
    const msgpack_object_map *data;
    const msgpack_object_map *metadata; /* NULL when absent */
    Text display_id;
    bool is_result;
    bool update;
} Display;

void displays_init(Displays *displays);
void displays_deinit(Displays *displays);

/* Checks a display: exactly the allowed keys, MIME types that are text. 0, or -EPROTO with a Problem. */
int display_decode(Display *ret, const msgpack_object_map *body, Problem *problem);

/* Keeps a copy. One with `update` takes the place of that with the same display_id, if there is one; without
 * display_id it takes back all that was shown. What is over the limits is counted and dropped: false then. */
bool displays_add(Displays *displays, const Display *display);

/* Appends the fields of a display event to a message; DISPLAY_EVENT_FIELDS of them. */
#define DISPLAY_EVENT_FIELDS 5
void display_write_event(Writer *w, const Display *display);

/* Writes the array `displays` of the record into the buffer of `w`, the notice included. */
void displays_write(const Displays *displays, Writer *w);
