/* Keys: what the prompt adds to the keys of the line editor. */
#pragma once

#include <histedit.h>
#include <termios.h>

#include "clients/c/cli/repl/words.h"

/* The editor's client data. */
typedef struct Keys {
    WordsFinder *complete;
    void *context;
    bool cleared;         /* Ctrl-C ended the line */
    bool is_terminal;     /* standard input: */
    struct termios given; /* its mode when no line is edited */
} Keys;

/* Ctrl-C clears the line, Tab completes or indents, Backspace removes an indentation, and what is pasted is
 * text and no keys. */
void keys_bind(EditLine *line);

/* Around the lines of a block; in between the terminal marks what is pasted. */
void keys_take_terminal(Keys *keys);
void keys_give_terminal(Keys *keys);

/* Before each line: Ctrl-C becomes a key, and nothing is echoed. The line editor shows its prompt before it
 * takes the terminal, so that what is typed in between would be shown twice. */
void keys_begin_line(const Keys *keys);
