/* Protection: what a call ran under and what became of the variables when they were not kept, as the
 * supervisor tells it in `executed`. */
#pragma once

#include "proto/wire.h"

/* The checkpoint the variables went back to. */
typedef struct RolledBack {
    Text checkpoint;
    uint64_t execution_count;
} RolledBack;

int rolled_back_decode(RolledBack *ret, const msgpack_object_map *body, Problem *problem);
void rolled_back_write(Writer *w, const RolledBack *rolled_back);

typedef struct StateProtection {
    Text level;                            /* `checkpoint` or `none` */
    const msgpack_object *execution_count; /* NULL: nil */
    Text reason;
} StateProtection;

int state_protection_decode(StateProtection *ret, const msgpack_object_map *body, Problem *problem);
void state_protection_write(Writer *w, const StateProtection *protection);

/* Of a call that nobody has told of. */
extern const StateProtection protection_unknown;
