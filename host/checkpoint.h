/* Checkpoint: what the supervisor says of one; and how clients are told. */
#pragma once

#include "proto/wire.h"

typedef struct Checkpoint {
    Text id, name; /* like names of sessions */
    uint64_t branch, execution_count;
    double created;
    bool automatic;
    uint64_t private_bytes;
    Text parent;
} Checkpoint;

/* Points into the message. Negative with the problem set when it is malformed. */
int checkpoint_decode(Checkpoint *ret, const msgpack_object *object, Problem *problem);

/* `session` stands for its branch; `files` says whether /session is kept with it. */
void checkpoint_write(Writer *w, const Checkpoint *checkpoint, const char *session, bool files);

/* An array of ids: as many as have been dropped since someone was told. */
int checkpoint_ids_check(const msgpack_object_array *ids, Problem *problem);
