/* Repl: the prompt of `limpet repl`, as its parts see it. */
#pragma once

#include "clients/c/cli/repl/words.h"
#include "clients/c/limpet.h"
#include "proto/base/base.h"

/* Pictures that code displays, in files for a person to look at. */
typedef struct Figures {
    char *directory; /* made with the first one, and left */
    unsigned count;
} Figures;

typedef struct Alive Alive;

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

/* ---- commands, which begin with a colon ---- */

/* Carries out a line that begins with a colon. */
void commands_run(Repl *repl, const char *line);

/* As complete_line(), of such a line. */
void commands_complete(Repl *repl, const char *before, Words *ret);

/* ---- completion at the cursor: names of the session, attributes, and the words of our commands ---- */

/* A WordsFinder; the context is the Repl. */
void complete_line(void *context, const char *before, Words *ret);

/* ---- hidden calls ----
 *
 * Code that the prompt asks for while somebody types is one more call of the session, made
 * only while it is idle; it leaves nothing in the namespace. What it answers is data of the sandbox. */

/* Returns whether a question about a session would be answered at once, without waiting for a call of
 * somebody else, of its branches too: calls of one container run one at a time. */
bool hidden_session_idle(LimpetClient *client, const char *session);

/* Returns what the code prints, to be freed; NULL when it cannot be had now, or the code failed. */
char *hidden_run(Repl *repl, const char *code);
