/* Turn: what a sandbox does one at a time, in the order asked for: a Call, which runs code, or an Order,
 * which is about the variables and is answered by the supervisor. Each is embedded in one of them. */
#pragma once

#include "proto/base/list.h"

typedef struct Session Session;

typedef enum TurnKind {
    TURN_CALL,
    TURN_ORDER,
} TurnKind;

typedef struct Turn {
    List link; /* Sandbox.turns while it waits */
    TurnKind kind;
    Session *session; /* that it is of */
    uint64_t number;  /* of its message to the supervisor; 0 until that is sent */
} Turn;
