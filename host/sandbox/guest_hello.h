/* guest_hello: what a supervisor says of itself and its session when it connects. Pure. */
#pragma once

#include "proto/schema.h"

/* The call that it runs, or a command. */
typedef struct GuestRunning {
    uint64_t id; /* of the execute or exec message; 0: none runs */
    uint64_t branch;
    uint64_t code_hash;
    char run_id[LIMIT_RUN_ID + 1];
    bool background; /* a process of `start` */
} GuestRunning;

/* State of the session; no branch is named twice, and the one that runs is among them. */
typedef struct GuestHello {
    size_t branch_count;
    MsgGuestBranch branches[LIMIT_BRANCHES + 1]; /* the session's own first */
    GuestRunning running;
    size_t command_count;
    GuestRunning commands[LIMIT_PROCESSES]; /* run, or have ended and their records follow */
} GuestHello;

/* Returns whether the command of that exec message is among them. */
bool guest_hello_has(const GuestHello *hello, uint64_t id);

/* Identity and state that a supervisor claims. */
typedef struct GuestClaim {
    Text session;
    Text secret; /* points into the message */
    GuestHello hello;
} GuestClaim;

/* 0, or -EPROTO with the problem set. */
int guest_hello_decode(GuestClaim *ret, const msgpack_object_map *body, Problem *problem);

/* 32 lower-case hexadecimal digits. */
bool run_id_valid(Text text);
