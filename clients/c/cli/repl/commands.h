/* The commands of the prompt, which begin with a colon: one table for what they do, :help and completion. */
#pragma once

#include "clients/c/cli/repl/repl.h"
#include "clients/c/cli/repl/words.h"

typedef struct ReplCommand {
    const char *name, *usage, *help;
    size_t min, max; /* arguments */
    void (*run)(Repl *repl, char **arguments, size_t n);
    /* Adds the words that may stand as an argument; or NULL. */
    void (*complete)(Repl *repl, size_t place, const char *prefix, Words *ret);
} ReplCommand;

/* Carries out a line that begins with a colon. */
void commands_run(Repl *repl, const char *line);

/* As complete_line(), of such a line. */
void commands_complete(Repl *repl, const char *before, Words *ret);

/* In state.c and files.c of this folder. */
extern const ReplCommand repl_checkpoint, repl_checkpoints, repl_rollback, repl_branch, repl_commit,
    repl_vars, repl_reset;
extern const ReplCommand repl_files, repl_put, repl_get;
