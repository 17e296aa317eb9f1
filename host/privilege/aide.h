/* Aide: a process of limpetd's that does one thing and has no rights, as its client sees it. One that ends is
 * started again: at once, and after longer and longer pauses where it ends at once. */
#pragma once

#include "host/privilege/rpc.h"

typedef struct Aide Aide;

/* Starts it; *ret_socket is our end. 0 or a negative errno. */
typedef int AideStarter(void *userdata, int *ret_socket);

typedef struct AideOps {
    const char *name; /* for the log */
    /* The aide is there and knows nothing yet. */
    void (*begun)(Aide *aide);
    /* As RpcEvents.message. NULL: it has nothing to say. */
    int (*message)(Aide *aide, const Message *message, Descriptors *descriptors);
} AideOps;

struct Aide {
    const AideOps *ops;
    Loop *loop;
    AideStarter *start;
    void *userdata; /* of `start` */
    Rpc rpc;        /* open where it is there */
    LoopTimer retry;
    uint64_t pause, started;
};

void aide_init(Aide *aide, const AideOps *ops, Loop *loop, AideStarter *start, void *userdata);
void aide_deinit(Aide *aide);

/* Starts it, unless it is there or about to be. */
void aide_want(Aide *aide);

static inline bool aide_is_there(const Aide *aide)
{
    return aide->rpc.file.loop != NULL;
}
