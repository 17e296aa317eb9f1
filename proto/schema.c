#include "proto/schema.h"

#define SCHEMA_FILE "proto/schema/all.def"
#include "proto/schema/as_tables.h"

/* `open` has the options among its own fields, and whole. */
#define SESSION_OPTION(name, ...)                                                                            \
    _Static_assert(offsetof(MsgOpen, name) == offsetof(MsgOpen, options) + offsetof(MsgOptions, name),       \
                   "the fields of `open` are not in the places of those of `options`");
#include "proto/session_options.def"
