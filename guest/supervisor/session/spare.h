/* A spare: a guest that is nobody's session yet. Its interpreter is started and has the usual modules, and a
 * checkpoint of it, that of its birth, is kept for whoever resets the session that it becomes.
 *
 *   spare_begin() ──► interpreter ready ── `prepare` ──► `prepared` ── checkpoint
 *     ──► `prepare` ──► `prepared` ──► READY ── `claim` ──► a session
 *
 * Each step goes on without what fails in it. */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/link/link.h"

typedef enum SpareStep {
    SPARE_NONE,    /* a session */
    SPARE_STARTS,  /* the interpreter starts */
    SPARE_IMPORTS, /* the interpreter imports, and answers `prepare` then */
    SPARE_FREEZES, /* the checkpoint is being made */
    SPARE_WARMS,   /* the interpreter answers another `prepare` */
    SPARE_READY,   /* the controller has been told, or will be */
} SpareStep;

typedef struct Spare {
    Branches *branches;
    Link *link;
    SpareStep step;
    Buf imports, failed; /* arrays of text, encoded */
    LoopTimer limit;
} Spare;

/* A session, until spare_begin(). `branches` and `link` outlive it. */
void spare_init(Spare *spare, Branches *branches, Link *link);
void spare_deinit(Spare *spare);
bool spare_is_one(const Spare *spare);

/* With the first welcome, before its interpreter is started. 0, or -EPROTO with a Problem. */
int spare_begin(Spare *spare, const Value *imports, Problem *problem);

/* Tells a new controller that the spare is ready, if it is. */
void spare_tell(Spare *spare);

/* The spare becomes the session, whose settings the branches have. `anew`: with a new process. */
void spare_become_session(Spare *spare, bool anew);

/* From the branches, as BranchEvents has them. Also of sessions: an interpreter that is ready is told of the
 * environment, if it has to be. */
void spare_on_ready(Spare *spare, Branch *branch);
int spare_on_prepared(Spare *spare, Branch *branch, const Message *message, Problem *problem);
void spare_on_birth(Spare *spare); /* the checkpoint of its birth is kept, or gone */
void spare_on_start_failed(Spare *spare);
