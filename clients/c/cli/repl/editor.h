/* Editor: the line editor (libedit), and from it whole blocks. The terminal is Python's while code runs: it
 * is taken over for a line and given back. */
#pragma once

#include "clients/c/cli/repl/words.h"
#include "proto/base/buf.h"

typedef struct Editor Editor;

typedef enum EditorEnd {
    EDITOR_BLOCK,
    EDITOR_CLEARED, /* Ctrl-C */
    EDITOR_END,     /* Ctrl-D, or the terminal is gone */
} EditorEnd;

/* For standard input and output. NULL when memory is short. */
Editor *editor_new(WordsFinder *complete, void *context);
void editor_free(Editor *editor);

/* Reads a block, terminated; `prompt` stands before its first line. */
EditorEnd editor_read(Editor *editor, const char *prompt, Buf *ret);
