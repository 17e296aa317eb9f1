/* Protocol of the controller with its egress process, which answers nothing. */
#pragma once

#include "proto/fields.h"

typedef enum EgressKind {
    EGRESS_NONE,
    EGRESS_SERVE, /* a sandbox, with the socket that its connections come from; or other rules for it, without
                   */
    EGRESS_FORGET, /* ends a sandbox's service, and its connections */
    EGRESS_LOG,    /* with what standard error is from now on */
} EgressKind;

#define SCHEMA_FILE "host/egress/protocol.def"
#include "proto/schema/as_structs.h"
