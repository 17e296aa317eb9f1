/* The blocks that were entered, kept from one prompt to the next in a file of the user's alone:
 * limpet/repl_history under the XDG state directory. One block a line, a line end in it as \n and a backslash
 * as \\. */
#pragma once

#include <histedit.h>
#include <stddef.h>

/* Entries that are remembered. */
#define HISTORY_MAX 2000

/* With what the file has; without a file where there can be none. NULL when memory is short. */
History *history_open(void);

/* Remembers a block, here and at the end of the file, which other prompts add to as well; not the same twice
 * in a row. */
void history_add(History *history, const char *block);
