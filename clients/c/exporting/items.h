/* Values that become an array when it is known how many there are. */
#pragma once

#include "proto/wire.h"

typedef struct Items {
    Buf encoded;
    Writer w;
    size_t n;
} Items;

static inline void items_begin(Items *items)
{
    *items = (Items){0};
    writer_init(&items->w, &items->encoded);
}

/* Returns the writer of one more item. */
static inline Writer *items_add(Items *items)
{
    items->n++;
    return &items->w;
}

/* Writes the array. */
static inline void items_end(Items *items, Writer *w)
{
    int r = writer_finish(&items->w);

    if (r < 0)
        writer_fail(w, r);
    write_array(w, items->n);
    write_encoded(w, &items->encoded);
    buf_deinit(&items->encoded);
}
