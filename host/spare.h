/* Spare: one container that waits for a session, from its birth until a session claims it. When there are
 * any, and of which kind, is pool.h's. */
#pragma once

#include "host/sandbox.h"

typedef struct PoolKind PoolKind;

struct Spare {
    List in_kind;   /* PoolKind.spares */
    PoolKind *kind; /* that wants it; NULL once given up */
    Sandbox *sandbox;
    uint64_t ready;  /* clock_now() when it was; 0 until then */
    char image[256]; /* what the default was at its birth */
};

/* Begins one, in no kind yet; `options` is taken over. 0, or negative with the problem set. */
int spare_start(Spare **ret, Controller *controller, bool ephemeral, SessionOptions *options,
                Problem *problem);
Spare *spare_free(Spare *spare);

/* Its interpreter has imported what it could. -EPROTO with the problem set when it cannot be understood. */
int spare_prepared(Sandbox *sandbox, const Message *message, Problem *problem);

/* Whether its process 1 is there at this moment; the loop learns of an end a little later. */
bool spare_is_alive(const Spare *spare);

/* Makes it the session, see pool_claim. 0; -EOPNOTSUPP when it cannot have the data, and is as it was; or
 * negative with the problem set: it is to be closed. */
int spare_claim(Spare *spare, const char *name, const char *output_id, SessionOptions *options,
                Problem *problem);
