/* What pool.c (when spares are made and claimed) and pool_kinds.c (which there are) share. Nobody else
 * includes this. */
#pragma once

#include "host/pool.h"
#include "host/spare.h"

struct Pool {
    Controller *controller;
    List kinds;   /* PoolKind, in the order they were first used */
    size_t limit; /* of a target */
    bool stopped;
    LoopTimer timer;
    uint64_t wanting;  /* clock_now() since when one is to be made; 0: none is */
    uint64_t reviewed; /* clock_now() */
    bool told;         /* what could not be imported */
};

struct PoolKind {
    List link;
    Pool *pool;
    bool ephemeral;
    bool standard;          /* of sessions that ask for nothing */
    SessionOptions options; /* of its spares */
    List spares;            /* Spare, the oldest first */
    size_t target, base;    /* how many there are to be, now and in the long run */
    bool filled;            /* one was ready, some time */
    uint64_t claimed;       /* clock_now() of the last session that asked */
    uint64_t eased;         /* clock_now() when the target went down */
    unsigned failures;      /* since the last that was of use */
    uint64_t not_before;    /* clock_now(): none is made until then */
};

/* The kind of such a session, new where it is the first; NULL when out of memory. */
PoolKind *kind_of(Pool *pool, const SessionOptions *options, bool ephemeral);
/* The one of the controller's defaults. 0, or negative with the problem set. */
int kind_add_standard(Pool *pool, Problem *problem);
/* Its spares are closed. */
void kind_free(PoolKind *kind);

/* Options for one more spare. 0 or -ENOMEM. */
int kind_options(const PoolKind *kind, SessionOptions *ret);

/* How many there are, ready or not. */
size_t kind_count(const PoolKind *kind);
/* Closes the oldest until no more than so many are left. */
void kind_trim(PoolKind *kind, size_t count);
/* It is not the kind's any more. */
void kind_give_up(Spare *spare);

/* Whether they are names of modules with commas between. */
int imports_check(const char *imports, Problem *problem);
