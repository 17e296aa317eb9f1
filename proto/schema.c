#include "proto/schema.h"

#define SCHEMA_FILE "proto/schema/all.def"
#include "proto/schema/as_tables.h"

/* `open` has the options among its own fields, and whole. */
_Static_assert(offsetof(MsgOpen, checkpoint) == offsetof(MsgOpen, options) + offsetof(MsgOptions, checkpoint),
               "the fields of `open` are not in the places of those of `options`");
