/* Shared by the files of the pool: pool.c (when spares are made, claimed and waited for) and spares.c (kinds
 * of them, and each one). Nobody else includes this. */
#pragma once

#include "host/pool/pool.h"

struct Pool {
    Sandboxes *sandboxes;
    size_t spares; /* all there are, those that are closing included */
    List kinds;    /* PoolKind, in the order they were first used */
    size_t limit;  /* of a target */
    bool off;      /* there are spares only of templates, and those when they are asked for */
    bool stopped;
    LoopTimer timer, serving;
    uint64_t wanting;  /* clock_now() since when one is to be made; 0: none is */
    uint64_t reviewed; /* clock_now() */
    bool told;         /* about modules that could not be imported */
    uint64_t misfits;  /* spares that could not begin with the memory of their kind */
};

typedef struct Spare Spare;

typedef struct PoolKind {
    List link;
    Pool *pool;
    bool ephemeral;
    bool standard;          /* of sessions that ask for nothing */
    SessionOptions options; /* of its spares */
    Template *template;     /* source of the spares; NULL: none. Its own reference */
    List waiters;           /* PoolWaiter, the first first */
    List spares;            /* Spare, the oldest first */
    size_t target, base;    /* numbers of spares to be had, now and in the long run */
    bool filled;            /* one was ready, some time */
    uint64_t claimed;       /* clock_now() of the last session that asked */
    uint64_t eased;         /* clock_now() when the target went down */
    unsigned failures;      /* since the last that was of use */
    uint64_t not_before;    /* clock_now(): none is made until then */
    MemoryImage *memory;    /* with which its spares begin; NULL: none. Its own reference */
    MemoryImage *making;    /* the next one; NULL: none. Likewise */
    Spare *writer;          /* whose memory that is; NULL: none, or it is gone */
    char image[256];        /* of the spare that has written it */
    unsigned misfits;       /* as in Pool: after some of them there is no memory */
} PoolKind;

/* Spare: a container that waits for a session, from its birth until it is assigned to a session or gone. */
struct Spare {
    List in_kind; /* PoolKind.spares */
    Pool *pool;
    PoolKind *kind;     /* the kind it is made for; NULL once given up */
    Template *template; /* as the kind's: its sandbox points into it */
    Sandbox *sandbox;
    uint64_t ready;  /* clock_now() when it was; 0 until then */
    char image[256]; /* what its name stood for at its birth */
    Problem failure; /* why it is of no use, where that is known */
    char *traceback; /* of its setup code; or NULL */
};

/* The kind of such a session; NULL where there has been none. */
PoolKind *kind_find(const Pool *pool, const SessionOptions *options, bool ephemeral, const Template *tmpl);
/* The kind of such a session, new where it is the first; NULL when out of memory. */
PoolKind *kind_of(Pool *pool, const SessionOptions *options, bool ephemeral, Template *tmpl);
/* The one of the controller's defaults. 0, or negative with the problem set. */
int kind_add_standard(Pool *pool, Problem *problem);
/* Its spares are closed, and who waits is told that the controller ends. */
void kind_free(PoolKind *kind);

/* Counts the kind's spares, ready or not. */
size_t kind_count(const PoolKind *kind);
size_t kind_count_warming(const PoolKind *kind); /* not ready */
/* Closes the oldest until no more than so many are left. */
void kind_trim(PoolKind *kind, size_t count);
/* Returns a spare that can still be used, or NULL; closes those that cannot. */
Spare *kind_find_ready(PoolKind *kind);
/* Takes a spare from its kind. */
void kind_give_up(Spare *spare);

/* The one that is being made is there, or cannot be had. */
void kind_memory_made(PoolKind *kind);
/* The memory of the kind that a sandbox can begin with; NULL: none. */
MemoryImage *kind_memory(const PoolKind *kind);

/* Checks that the text is names of modules with commas between. */
int imports_check(const char *imports, Problem *problem);

/* Begins one of that kind. 0, or negative with the problem set. */
int spare_start(PoolKind *kind, Problem *problem);
/* The session that has claimed it does without. */
void spare_forget(Spare *spare);

/* The first who waits, if anybody does, gets that instead. The kind may be gone afterwards. */
void kind_fail_waiter(PoolKind *kind, const PoolFailure *failure);

/* pool.c: what becomes of a spare */
void pool_spare_ready(Spare *spare);
void pool_spare_lost(Spare *spare, const char *reason);
void pool_spare_written(Spare *spare); /* its memory is there */
void pool_not_imported(Pool *pool, const Value *failed);
