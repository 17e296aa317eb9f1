/* Repl: the prompt of `limpet repl`, as its parts see it. */
#pragma once

#include "clients/c/cli/repl/alive.h"
#include "clients/c/cli/repl/figures.h"
#include "clients/c/limpet.h"
#include "proto/base/base.h"

typedef struct Repl {
    LimpetClient *client;
    const LimpetOptions *options;
    double timeout;    /* of a cell */
    char session[136]; /* the one that cells run in */
    char origin[136];  /* the same but on a branch: the session it is of */
    char instance[72]; /* of the session; empty: not checked */
    double ttl;
    bool own;  /* the session was made for this prompt, under a name nobody chose */
    bool gone; /* the session has been closed: the next cell opens a new one */
    bool time; /* say how long a cell took */
    bool quit; /* the prompt ends, */
    bool keep; /* and leaves its session */
    Alive *alive;
    Figures figures;
} Repl;

/* Opens the session, or attaches to it. */
int repl_open(Repl *repl);

/* Says what is wrong, after a call that failed; notes when it is that the session is gone. */
void repl_complain(Repl *repl);
