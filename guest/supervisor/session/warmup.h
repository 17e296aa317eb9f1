/* Warmup: of a spare, a guest that is nobody's session yet. Its interpreter is started and has the usual
 * modules, and a checkpoint of it, the pristine one, is kept for whoever resets the session that it becomes.
 *
 *   warmup_begin() ──► interpreter ready ── `prepare` ──► `prepared` ── (`prepare` ──► `prepared`, of setup
 *     code) ── checkpoint ──► `prepare` ──► `prepared` ──► READY ── `claim` ──► a session
 *
 * The first of its kind has the checkpoint write its memory, which the controller passes to the others: their
 * checkpoint is made of that, and what is prepared in it is prepared. A session that is no spare may begin
 * with it as well.
 *
 * Each step goes on without what fails in it, but for the setup code of a template: a spare in which that
 * fails is FAILED, and of no use. */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/link/link.h"

typedef enum WarmupStep {
    WARMUP_NONE,    /* a session */
    WARMUP_STARTS,  /* the interpreter starts */
    WARMUP_IMPORTS, /* the interpreter imports, and answers `prepare` then */
    WARMUP_SETS_UP, /* the interpreter runs the setup code, and answers another one */
    WARMUP_FREEZES, /* the checkpoint is being made */
    WARMUP_KEEPS,   /* the checkpoint writes its memory */
    WARMUP_WARMS,   /* the interpreter answers another `prepare` */
    WARMUP_READY,   /* the controller has been told, or will be */
    WARMUP_FAILED,  /* likewise of the setup code, which did not end well */
} WarmupStep;

/* Code of a template, absent where there is none, and how long it may take. */
typedef struct SetupCode {
    Text code;
    double seconds;
} SetupCode;

typedef struct Warmup {
    Branches *branches;
    Link *link;
    WarmupStep step;
    Buf imports, failed; /* arrays of text, encoded */
    char *setup;         /* code of a template; NULL: none */
    double setup_seconds;
    char *error[3]; /* of the failure: name, message and traceback */
    bool shares;    /* it begins with memory that was passed */
    bool lacks;     /* something is not in that: it is to begin anew */
    bool keeps;     /* its memory is wanted */
    int kept;       /* a file with that; -1: none */
    LoopTimer limit;
} Warmup;

/* A session, until warmup_begin(). `branches` and `link` outlive it. */
void warmup_init(Warmup *warmup, Branches *branches, Link *link);
void warmup_deinit(Warmup *warmup);
/* false: a session by now. */
static inline bool warmup_is_spare(const Warmup *warmup)
{
    return warmup->step != WARMUP_NONE;
}

/* With the first welcome, before its interpreter is started. `setup` may be absent; `keeps`: its memory is
 * wanted. 0, or -EPROTO with a Problem. */
int warmup_begin(Warmup *warmup, const Value *imports, SetupCode setup, bool keeps, Problem *problem);

/* Has the interpreter of a spare or a session, which is started next, begin with the memory behind `shared`,
 * if that fits. */
void warmup_share(Warmup *warmup, int shared);

/* Takes the next step of what was noticed where it could not be taken. */
void warmup_advance(Warmup *warmup);

/* Tells a new controller that the spare is ready, or of no use, if it is. */
void warmup_tell(Warmup *warmup);

/* The spare becomes the session, whose settings the branches have. `anew`: with a new process. */
void warmup_become_session(Warmup *warmup, bool anew);

/* There is a way to the network from now on, as the environment of the branches says: tells interpreters that
 * run. */
void warmup_proxy(Warmup *warmup);

/* From the branches, as BranchEvents has them. Also of sessions: an interpreter that is ready is told of the
 * environment, if it has to be. */
void warmup_on_ready(Warmup *warmup, Branch *branch, bool copied);
int warmup_on_prepared(Warmup *warmup, Branch *branch, const Message *message, Problem *problem);
void warmup_on_pristine(Warmup *warmup); /* the pristine checkpoint is kept, or gone */
void warmup_on_start_failed(Warmup *warmup);
void warmup_on_lost(Warmup *warmup, const Branch *branch);
